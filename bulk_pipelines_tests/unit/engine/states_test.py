"""The table of moves: what it allows, what it refuses, and that the documentation draws the same."""

from itertools import product
from pathlib import Path

import pytest

from bulk_pipelines.engine.states import (
    FINISHED_JOBS,
    ITEM_MOVES,
    JOB_MOVES,
    OPEN_ITEMS,
    IllegalMove,
    ItemEvent,
    ItemState,
    JobEvent,
    JobState,
    after,
    diagram,
    sources,
    target,
)

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "engine.md"


@pytest.mark.parametrize(("state", "event"), list(product(JobState, JobEvent)))
def test_a_job_takes_an_event_or_refuses_it(state: JobState, event: JobEvent) -> None:
    check(JOB_MOVES.get((state, event)), lambda: after(JOB_MOVES, state, event), state, event)
    assert (state in sources(JOB_MOVES, event)) == ((state, event) in JOB_MOVES)


@pytest.mark.parametrize(("state", "event"), list(product(ItemState, ItemEvent)))
def test_an_item_takes_an_event_or_refuses_it(state: ItemState, event: ItemEvent) -> None:
    check(ITEM_MOVES.get((state, event)), lambda: after(ITEM_MOVES, state, event), state, event)
    assert (state in sources(ITEM_MOVES, event)) == ((state, event) in ITEM_MOVES)


def check(allowed: object, move: object, state: str, event: str) -> None:
    assert callable(move)
    if allowed is not None:
        assert move() is allowed
    else:
        with pytest.raises(IllegalMove, match=f"{state}.*{event}"):
            move()


@pytest.mark.parametrize("event", JobEvent)
def test_an_event_of_a_job_leads_to_one_state(event: JobEvent) -> None:
    assert {target(JOB_MOVES, event)} == {after(JOB_MOVES, state, event) for state in sources(JOB_MOVES, event)}


@pytest.mark.parametrize("event", ItemEvent)
def test_an_event_of_an_item_leads_to_one_state(event: ItemEvent) -> None:
    assert {target(ITEM_MOVES, event)} == {after(ITEM_MOVES, state, event) for state in sources(ITEM_MOVES, event)}


def test_the_contract_that_the_tables_spell_out() -> None:
    """What the rest of the system counts on, said a second way."""
    assert {state for state, _ in JOB_MOVES} == set(JobState) - {JobState.CANCELLED}
    assert {state for state, _ in ITEM_MOVES} == {*OPEN_ITEMS, ItemState.DLQ, ItemState.NOT_FOUND}
    # Only a claim makes an item RUNNING, and only from a state in which it waits.
    assert sources(ITEM_MOVES, ItemEvent.CLAIM) == [ItemState.PENDING, ItemState.RETRY_WAIT]
    assert [event for (_, event), to in ITEM_MOVES.items() if to is ItemState.RUNNING] == [ItemEvent.CLAIM] * 2
    # What is being worked is never cancelled under the hands of its worker.
    assert ItemState.RUNNING not in sources(ITEM_MOVES, ItemEvent.CANCEL)
    # What is over goes on only by a redrive, and what is cancelled never.
    for state in FINISHED_JOBS:
        assert [event for each, event in JOB_MOVES if each is state] in ([JobEvent.REDRIVE], [])
    assert not [event for state, event in JOB_MOVES if state is JobState.CANCELLED]
    assert sources(ITEM_MOVES, ItemEvent.REDRIVE) == [ItemState.DLQ, ItemState.NOT_FOUND]


def test_every_state_is_reached() -> None:
    assert set(JOB_MOVES.values()) | {JobState.SUBMITTED} == set(JobState)
    assert set(ITEM_MOVES.values()) == set(ItemState)


@pytest.mark.parametrize("moves", [JOB_MOVES, ITEM_MOVES], ids=["jobs", "items"])
def test_the_document_shows_the_moves_as_they_are(moves: object) -> None:
    blocks = DOCUMENT.read_text().split("```mermaid\n")[1:]
    drawn = [block.split("\n```", 1)[0] for block in blocks]
    assert diagram(moves) in drawn  # type: ignore[arg-type]
    assert len(drawn) == 2
