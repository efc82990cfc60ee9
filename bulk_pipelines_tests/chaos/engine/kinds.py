"""The kinds of jobs of the chaos tests: what their items leave behind shows a test what happened to them."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, cast

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done, Outcome, RetryLater, Unfinished
from bulk_pipelines.engine.worker.retry import Backoff, RetryPolicy
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import ErrorClass

LEASE_SECONDS = 1.5
LONGER_LEASE_SECONDS = 4.0

# As by default, but nobody wants to wait for minutes here.
SOON = RetryPolicy(backoffs={error_class: Backoff(base=0.05, cap=0.5) for error_class in ErrorClass})
SHORT = SliceLimits(target_seconds=0.5, first_claim=8, max_claim=40, lease_floor=LEASE_SECONDS)
PATIENT = SliceLimits(target_seconds=0.5, first_claim=8, max_claim=40, lease_floor=60.0)


def work(lease: Lease, tools: Tools) -> Outcome:
    """An item of one row. Its input says how long it takes, and what goes wrong."""
    mark(lease, tools, "begun")
    if lease.death_count < lease.input.get("kills", 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if lease.death_count < lease.input.get("hangs", 0):
        threading.Event().wait()
    if lease.attempt_count <= lease.input.get("fails", 0):
        return RetryLater("not the first time", after=0.2)
    take_time(lease)
    if lease.checkpoint is None:
        with transaction(tools.pool) as connection:
            tools.hold(connection, lease)
            connection.execute("INSERT INTO part VALUES (%s, 0, %s)", [lease.item_key, tools.worker])
            tools.checkpoint(connection, lease, {"written": True})
    mark(lease, tools, "done")
    return Done({"term": lease.lease_term})


def prepare(claimed: Sequence[Lease], tools: Tools) -> None:
    if any(lease.death_count < lease.input.get("prepare_hangs", 0) for lease in claimed):
        threading.Event().wait()


def write_parts(lease: Lease, tools: Tools) -> Outcome:
    """A long item of many rows, each with its checkpoint, which goes on where it was."""
    first = (lease.checkpoint or {"next": 0})["next"]
    for number in range(first, lease.input["parts"]):
        if tools.stopping():
            return Unfinished()
        with transaction(tools.pool) as connection:
            tools.hold(connection, lease)
            connection.execute("INSERT INTO part VALUES (%s, %s, %s)", [lease.item_key, number, tools.worker])
            take_time(lease)
            tools.checkpoint(connection, lease, {"next": number + 1})
    mark(lease, tools, "done")
    return Done({"term": lease.lease_term})


def only_marks(lease: Lease, tools: Tools) -> Outcome:
    """Mark the beginning and the end of the work; only the settlement is fenced."""
    mark(lease, tools, "begun")
    take_time(lease)
    mark(lease, tools, "done")
    return Done({"term": lease.lease_term})


NONSENSE: dict[str, Any] = {
    "an object": Done({"term": object()}),
    "a NUL": Done({"term": "\0"}),
    "not a number": Done({"term": float("nan")}),
    "too much": Done({"term": "x" * 10_000_000}),
    "half a character": Done(normalized={"\ud800": 1}),
    "no outcome": {"term": 1},
    "nothing": None,
}


def answer_nonsense(lease: Lease, tools: Tools) -> Outcome:
    """What a handler with an error in it may come to."""
    answers = lease.input.get("answers")
    if answers == "an exit":
        sys.exit(3)
    if answers in NONSENSE:
        return cast(Outcome, NONSENSE[answers])
    mark(lease, tools, "done")
    return Done({"term": lease.lease_term})


def mark(lease: Lease, tools: Tools, stage: str) -> None:
    values = [lease.item_key, lease.lease_term, tools.worker, stage]
    with transaction(tools.pool) as connection:
        connection.execute("INSERT INTO mark (item_key, term, worker, stage) VALUES (%s, %s, %s, %s)", values)


def take_time(lease: Lease) -> None:
    threading.Event().wait(lease.input.get("seconds", 0.0))


KINDS = Kinds(
    [
        Kind("one_by_one", work, retry=SOON, slices=SHORT),
        Kind("side_by_side", work, retry=SOON, slices=SHORT, concurrency=4),
        Kind("patient", work, retry=SOON, slices=PATIENT),
        Kind("patient_side_by_side", work, retry=SOON, slices=PATIENT, concurrency=4),
        Kind("long", write_parts, retry=SOON, slices=SHORT),
        Kind("patient_long", write_parts, retry=SOON, slices=PATIENT),
        Kind("marks", only_marks, retry=SOON, slices=SHORT),
        Kind(
            "longer_leases", only_marks, retry=SOON, slices=SliceLimits(lease_floor=LONGER_LEASE_SECONDS, first_claim=1)
        ),
        Kind("nonsense", answer_nonsense, retry=SOON, slices=SHORT),
        Kind("nonsense_side_by_side", answer_nonsense, retry=SOON, slices=SHORT, concurrency=4),
        Kind("hanging", work, retry=SOON, slices=SHORT, item_timeout=1.0),
        Kind("hanging_preparation", work, prepare, retry=SOON, slices=SHORT, item_timeout=1.0),
        Kind("hanging_side_by_side", work, retry=SOON, slices=SHORT, item_timeout=1.0, concurrency=4),
    ]
)
