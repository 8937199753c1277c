"""Deployment: sizes, inputs, profiles, buckets, cost, and guards from an analysis."""

from .enumeration import enumerate_sizes
from .guards.guard import guard, guarded
from .inputs.inputs import GeneratedInputs, generate_inputs
from .profiles.bucketing import Bucket, Buckets, buckets
from .profiles.formats import profile_text
from .profiles.profiles import NoProfile, Profile, profile
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
