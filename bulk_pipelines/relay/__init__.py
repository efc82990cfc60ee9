"""Launches submitted jobs: the other end of the outbox."""
