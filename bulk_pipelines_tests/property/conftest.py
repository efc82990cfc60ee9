"""Properties are judged by what they find, not by how long a shared machine took for one example."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
