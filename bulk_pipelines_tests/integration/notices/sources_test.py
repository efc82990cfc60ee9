"""Notices of sources: an outage and a silence are told once, and told again when they come again."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.notices import outbox
from bulk_pipelines.notices.request import EventType
from bulk_pipelines_tests.scenes.notices import Receiver, delivered, subscribed, verify


def test_a_source_of_any_name_can_be_told_of(engine: Engine) -> None:
    with Receiver() as receiver:
        made = subscribed(engine, receiver.address, EventType.SOURCE_DOWN, all_owners=True)
        look(engine, 5)
        with transaction(engine) as connection:
            connection.execute("UPDATE drop_source SET source = E'Eingänge\\n\\r: 7'")
        assert delivered(engine, outbox.run_once(engine)).status is JobState.COMPLETED
    ((headers, body),) = receiver.received
    assert verify(made.secret, headers, body)["data"]["source"] == "Eingänge\n\r: 7"


def look(engine: Engine, failures: int, dropped: str | None = None) -> None:
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO drop_source (source, failures, last_error, looked_at) VALUES ('bucket', %s, 'no route', now())"
            " ON CONFLICT (source) DO UPDATE SET failures = excluded.failures, looked_at = now()",
            [failures],
        )
        if dropped:
            connection.execute(
                "INSERT INTO file_drop (source, path, version, size, resource, first_seen_at)"
                f" VALUES ('bucket', md5(random()::text), '1', 1, 'users', now() - interval '{dropped}')"
            )


def test_an_outage_of_a_source_is_told_once_and_the_next_one_again(engine: Engine) -> None:
    subscribed(engine, "https://a.example.org/", EventType.SOURCE_DOWN, all_owners=True)
    told = []
    for failures in (0, 1, 3, 4, 5, 1, 0, 2, 3, 0):
        look(engine, failures)
        told.append(outbox.run_once(engine).notices)
    assert told == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    with transaction(engine) as connection:
        rows = connection.execute("SELECT DISTINCT input ->> 'id' FROM job_item WHERE kind = 'notice'").fetchall()
    assert len(rows) == 2


def test_silence_of_a_source_is_told_once_until_a_file_comes(engine: Engine) -> None:
    subscribed(engine, "https://a.example.org/", EventType.SOURCE_SILENT, all_owners=True, silent_seconds=3_600)
    with transaction(engine) as connection:
        connection.execute("UPDATE subscription SET created_at = now() - interval '1 day'")
    told = []
    for dropped in ("3 hours", None, "1 minute", None):
        look(engine, 0, dropped)
        told.append(outbox.run_once(engine).notices)
    assert told == [1, 0, 0, 0]
    with transaction(engine) as connection:
        connection.execute("UPDATE file_drop SET first_seen_at = now() - interval '2 hours'")
    assert outbox.run_once(engine).notices == 1


def test_sources_concern_nobody_alone(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match="all-owners"):
        subscribed(engine, "https://a.example.org/", EventType.SOURCE_DOWN)
