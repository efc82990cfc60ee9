"""The chaos tests of the engine have the server that may be killed, and the randomness that is told."""

from bulk_pipelines_tests.chaos.engine.conftest import chance, victim

__all__ = ["chance", "victim"]
