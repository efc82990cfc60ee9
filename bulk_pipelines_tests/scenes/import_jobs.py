"""Imports as jobs that are planned and worked in this process, with ranges of a few bytes and ranges that are buried,
and queries for what came of them."""

import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.redrive import redrive
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes.listening import Heard, listening

HASTY = Kinds(replace(kind, retry=RetryPolicy(max_attempts=1)) for kind in KINDS.values())
"""Kinds of imports in which a range that fails once is buried."""

FAULTS = """
CREATE TABLE public.fault (email text);
CREATE FUNCTION fill_up() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM public.fault WHERE fault.email = lower(NEW.email)) THEN
            RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full';
        END IF;
        RETURN NEW;
    END
$$;
CREATE TRIGGER faulty BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION fill_up();
CREATE TRIGGER faulty BEFORE INSERT ON users_aside FOR EACH ROW EXECUTE FUNCTION fill_up();
"""
"""SQL that makes a table of addresses. The server cannot write records with these addresses, so the ranges that hold
them are buried."""

Row = tuple[str, str, str]
"""A user's address, name and role."""


@dataclass(frozen=True)
class Imports:
    engine: Engine
    folder: Path
    kinds: Kinds = field(default_factory=lambda: HASTY)

    def planned(self, *texts: str, resource: str = "users", **options: Any) -> Job:
        """Submit an import of files with these contents, start it and plan it."""
        files = []
        for text in texts:
            path = self.folder / f"{uuid.uuid4().hex}.csv"
            path.write_text(text)
            files.append(RequestedFile(str(path), path.stat().st_size))
        known = options.pop("known_sha256", ())
        request = Options(resource, **options).request(tuple(replace(file, known_sha256=known) for file in files))
        with transaction(self.engine) as connection:
            job = submission.submit(connection, request, Sender("me", "cli")).job
            job = jobs.start(connection, job.job_key)
        planning.plan(self.engine, job)
        return job

    def worked(self, job: Job, heard: Heard | None = None) -> Job:
        """Let a worker do what there is to do, and return the import as it is then. `heard` is told each statement of
        the worker before it is sent."""
        with (
            nullcontext(self.engine) if heard is None else listening(self.engine, heard) as pool,
            Worker(pool, self.kinds, job) as worker,
        ):
            drain(worker)
        return self.look(job)

    def buried(self, *emails: str) -> None:
        """Let the ranges with these addresses be buried from now on; without addresses, let none be."""
        with transaction(self.engine) as connection:
            connection.execute("DELETE FROM fault")
            for email in emails:
                connection.execute("INSERT INTO fault VALUES (%s)", [email])

    def redrive(self, job: Job) -> Job:
        """Remove what buried the ranges of the import and redrive them. Return the import, which is not worked yet."""
        self.buried()
        redrive(self.engine, job.job_key)
        return self.look(job)

    def redriven(self, job: Job) -> Job:
        return self.worked(self.redrive(job))

    def look(self, job: Job) -> Job:
        with transaction(self.engine) as connection:
            return jobs.find(connection, job.job_key)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with transaction(self.engine) as connection:
            return connection.execute(text.encode()).fetchall()

    def have(self, users: Mapping[str, str]) -> None:
        """Put users into the table before the import, given as a mapping of addresses to names."""
        with transaction(self.engine) as connection:
            for email, name in users.items():
                connection.execute(
                    "INSERT INTO users (id, email, name, role) VALUES (gen_random_uuid(), %s, %s, 'reader')",
                    [email, name],
                )

    def users(self) -> dict[str, str]:
        """Return the names in the table, by address."""
        return dict(self.query("SELECT email, name FROM users"))

    def waiting(self) -> int:
        (found,) = self.query("SELECT count(*) FROM users_aside")
        return int(found[0])

    def rejects(self, job: Job) -> dict[int, tuple[str, list[str]]]:
        """Return each rejected record with the codes of its reasons, by its line."""
        found = self.query(
            "SELECT line, coalesce(convert_from(raw, 'UTF8'), 'UNREAD'),"
            " ARRAY(SELECT reason ->> 'code' FROM jsonb_array_elements(reasons) AS reason)"
            f" FROM rejected_row WHERE job_id = {job.job_id}"
        )
        return {line: (raw, codes) for line, raw, codes in found}

    def codes(self, job: Job) -> dict[int, list[str]]:
        """Return the codes of the reasons of each rejected record, by its line."""
        return {line: found for line, (_, found) in self.rejects(job).items()}


def imports_of(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch, range_bytes: int = 60) -> Imports:
    """Prepare imports whose ranges have about so many bytes and are each an item of its own. `buried` works on this
    database."""
    monkeypatch.setenv("BULK_HOME", str(folder / "home"))
    monkeypatch.setattr(planning, "RANGE_BYTES", range_bytes)
    with transaction(engine) as connection:
        connection.execute(FAULTS)
    return Imports(engine, folder)


def file_of(*rows: Row) -> str:
    return "email,name,role\n" + "".join(f"{','.join(row)}\n" for row in rows)


def counts(job: Job) -> dict[str, int]:
    """Return what the result says became of the records, without the counts that are zero."""
    names = ("read", "loaded", "rejected", "superseded", "valid", "waiting", "unprocessed")
    return {name: (job.result or {})[name] for name in names if (job.result or {})[name]}


def prepare(engine: Engine, statements: str) -> None:
    """Run these statements as people do, who know nothing of this program."""
    with transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(statements.replace("%%", "%").encode(), prepare=False)
