"""Clearing away an upload that is being submitted at that moment: what belongs to a job stays."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import BulkError, Unavailable
from bulk_pipelines.imports.request import Options
from bulk_pipelines.imports.sent import clearing, receiving
from bulk_pipelines.storage.compression import Compression
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import count, done, landed, nothing_is_left, sent, users


@dataclass
class Arriving:
    """A file that arrives, and what happens when all of it is there."""

    content: bytes
    happens: Any = lambda: None
    name: str | None = None
    priority: int = 0
    compression: Compression | None = None

    def pieces(self) -> Iterator[bytes]:
        yield self.content
        self.happens()

    def options(self) -> Options:
        return Options("users")


class CommitLost:
    """A pool whose connection is lost when the transaction that submits a job has been committed, before anybody hears
    of it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.url = engine.url
        self.lost = 0

    def raw_connection(self) -> Any:
        return Losing(self, self.engine.raw_connection())


class Losing:
    """A connection that is found to be lost when it is given back."""

    def __init__(self, pool: CommitLost, connection: Any) -> None:
        self.pool, self.connection = pool, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def close(self) -> None:
        self.connection.close()
        if not self.pool.lost and count(self.pool.engine, "SELECT count(*) FROM job"):
            self.pool.lost += 1
            raise Unavailable("the answer was lost")


def test_an_upload_whose_commit_was_not_heard_of_keeps_its_file(api: Api) -> None:
    losing: Any = CommitLost(api.engine)
    with pytest.raises(Unavailable, match="lost"):
        receiving.import_sent(losing, api.settings, Arriving(users(1, 2)), Sender("ada", "api"), lambda *_: None)
    assert losing.lost == 1
    with transaction(api.engine) as connection:
        row = connection.execute("SELECT job_key FROM job").fetchone()
    assert row is not None
    assert done(api.engine, row[0]).status == "COMPLETED"
    assert count(api.engine, "SELECT count(*) FROM users") == 2


SUBMITTED_NEXT = """
CREATE FUNCTION submitted_next() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN UPDATE upload SET state = 'SUBMITTED', length = bytes WHERE upload_id = NEW.upload_id; RETURN NULL; END $$;
CREATE TRIGGER submitted_next AFTER UPDATE OF term ON upload FOR EACH ROW EXECUTE FUNCTION submitted_next()
"""
"""SQL that submits an upload behind the back of whoever has just taken it over."""


def test_an_upload_that_is_submitted_meanwhile_is_not_given_up(api: Api) -> None:
    """The last request is through just when another one, which found the upload unfinished, begins to clear away."""
    client = api.client("ada")
    place = sent(client, users(1, 2), {"Upload-Complete": "?0"}).headers["Location"]
    with transaction(api.engine) as connection:
        connection.execute(SUBMITTED_NEXT)
    answer = client.delete(place)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/completed-upload")
    assert len(landed(api)) == 1


def test_an_upload_that_was_cleared_away_while_it_still_arrived_leaves_nothing(api: Api) -> None:
    def cleared() -> None:
        with transaction(api.engine) as connection:
            connection.execute("UPDATE upload SET expires_at = now() - interval '1 second'")
        assert clearing.clear_all(api.engine) == 1

    arriving = Arriving(users(1, 2), cleared)
    with pytest.raises(BulkError):
        receiving.import_sent(api.engine, api.settings, arriving, Sender("ada", "api"), lambda *_: None)
    nothing_is_left(api)
