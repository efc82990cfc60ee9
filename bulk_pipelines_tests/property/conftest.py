"""Properties are judged by what they find, not by how long a shared machine took for one example."""

import os

from hypothesis import core, settings

from bulk_pipelines_tests.scenes.today import FEW, SEED

settings.register_profile("thorough", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=FEW)
core.global_force_seed = SEED  # type: ignore[assignment]  # as --hypothesis-seed does: what is drawn goes by the seed of the day
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))
