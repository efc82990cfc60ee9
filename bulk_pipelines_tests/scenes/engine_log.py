"""A record of every move of every job and item, kept by triggers, and what must be true of it."""

from collections import defaultdict
from typing import Any, NamedTuple

import psycopg

from bulk_pipelines.engine.states import ITEM_MOVES, JOB_MOVES, ItemState, JobState

TABLES = """
CREATE TABLE IF NOT EXISTS item_log (
    seq bigint GENERATED ALWAYS AS IDENTITY, item_id bigint, was text, now text, old_term int, term int, result jsonb
);
CREATE TABLE IF NOT EXISTS job_log (seq bigint GENERATED ALWAYS AS IDENTITY, job_id bigint, was text, now text);

CREATE OR REPLACE FUNCTION log_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO item_log (item_id, was, now, old_term, term, result)
    VALUES (NEW.item_id, state(OLD), state(NEW), OLD.lease_term, NEW.lease_term, NEW.result);
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION log_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_log (job_id, was, now) VALUES (NEW.job_id, OLD.status, NEW.status);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER log_item AFTER INSERT OR UPDATE ON job_item FOR EACH ROW EXECUTE FUNCTION log_item();
CREATE OR REPLACE TRIGGER log_job AFTER INSERT OR UPDATE ON job FOR EACH ROW EXECUTE FUNCTION log_job();
"""

ITEM_STEPS = {(was, to) for (was, _), to in ITEM_MOVES.items()}
JOB_STEPS = {(was, to) for (was, _), to in JOB_MOVES.items()}


class Move(NamedTuple):
    seq: int
    item_id: int
    was: str | None
    now: str
    old_term: int | None
    term: int
    result: dict[str, Any] | None


def install(connection: psycopg.Connection[Any]) -> None:
    connection.execute(TABLES)


def moves(connection: psycopg.Connection[Any], since: int = 0) -> list[Move]:
    found = connection.execute(
        "SELECT seq, item_id, was, now, old_term, term, result FROM item_log WHERE seq > %s ORDER BY seq", [since]
    )
    return [Move._make(row) for row in found.fetchall()]


def check(connection: psycopg.Connection[Any]) -> None:
    """Check the whole record, from the beginning."""
    lives: dict[int, list[Move]] = defaultdict(list)
    for move in moves(connection):
        lives[move.item_id].append(move)
    for life in lives.values():
        check_life(life)
    for was, now in connection.execute("SELECT was, now FROM job_log").fetchall():
        check_job_step(was, now)


def check_job_step(was: str | None, now: str) -> None:
    if was is None:
        assert now == JobState.SUBMITTED
    else:
        assert was == now or (was, now) in JOB_STEPS, f"a job moved from {was} to {now}"


def check_life(life: list[Move]) -> None:
    """Check the moves of one item: it was born PENDING and moved only as ITEM_MOVES allows, each claim began a new
    term, and each term was settled at most once."""
    born, *later = life
    assert (born.was, born.now, born.term) == (None, ItemState.PENDING, 0)
    state: str = ItemState.PENDING
    term = 0
    for move in later:
        assert (move.was, move.old_term) == (state, term), f"a gap in the life of an item: {move}"
        check_step(move)
        state, term = move.now, move.term


def check_step(move: Move) -> None:
    assert move.old_term is not None
    raised = move.term - move.old_term
    if move.was == move.now:
        assert raised == 0, f"a term changed and nothing else: {move}"
        return
    assert (move.was, move.now) in ITEM_STEPS, f"no such move: {move}"
    if move.now == ItemState.RUNNING:
        assert raised == 1, f"a claim without a new term: {move}"
    elif move.was == ItemState.RUNNING:
        # The item was settled either by its own term, which no later claim has, or by a rescue, which ends the term.
        rescued = move.now in (ItemState.RETRY_WAIT, ItemState.DLQ)
        assert raised == 0 or (raised == 1 and rescued), f"settled by another term: {move}"
    else:
        assert raised == 0, f"a term changed outside of a lease: {move}"
