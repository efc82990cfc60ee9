"""Notices: whoever has subscribed is told by a signed request when a job has ended or a source is down. `outbox` turns
events into the items of a job, and the engine delivers these as it works any other item."""
