"""Properties are judged by what they find, not by how long a shared machine took for one example."""

import os

from hypothesis import settings

settings.register_profile("thorough", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))
