"""The chaos tests of the engine have the server that may be killed."""

from bulk_pipelines_tests.chaos.engine.conftest import victim

__all__ = ["victim"]
