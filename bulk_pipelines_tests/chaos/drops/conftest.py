"""The randomness that is told when a test fails."""

from bulk_pipelines_tests.chaos.engine.conftest import chance

__all__ = ["chance"]
