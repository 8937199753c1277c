"""Settings that hold for all tests: property tests draw the same cases on every machine."""

import os

from hypothesis import settings

os.environ.pop("COLUMNS", None)  # pipes are wrapped at it
settings.register_profile("steady", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
