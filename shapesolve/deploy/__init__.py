"""Deployment: sizes, inputs, profiles, buckets, cost, and guards from an analysis."""

from .bucketing import Bucket, Buckets, buckets
from .enumeration import enumerate_sizes
from .guard import guard, guarded
from .inputs import GeneratedInputs, generate_inputs
from .profile_formats import profile_text
from .profiles import NoProfile, Profile, profile
from .sizes import NoSizes, Sizes

__all__ = [
    "Bucket",
    "Buckets",
    "GeneratedInputs",
    "NoProfile",
    "NoSizes",
    "Profile",
    "Sizes",
    "buckets",
    "enumerate_sizes",
    "generate_inputs",
    "guard",
    "guarded",
    "profile",
    "profile_text",
]
