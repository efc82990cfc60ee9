"""A file of users with every kind of trouble in it, imported by worker processes, and what must come of it."""

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.settings import CHECKOUT

HEADER = "id,email,name,role,active"
Row = tuple[str, str, str, str, bool, int]
"""A user's id, email, name, role and active, and the line that the record came from."""

SLOW_TABLE = """
CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.0003 * (SELECT count(*) FROM added)); RETURN NULL; END $$;
CREATE TRIGGER be_slow AFTER INSERT ON users REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION be_slow()
"""
"""SQL that slows inserts down to about 3,300 users a second and connection, however quick the machine is."""


@dataclass(frozen=True)
class Outcome:
    rows: dict[str, Row]
    rejects: dict[int, list[str]]
    """The codes of each rejected line."""


def identity(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def user_file(path: Path, count: int, chance: random.Random, bad: float = 0.02) -> Outcome:
    """Write a CSV of so many users, and return what inserting it into an empty table comes to. Some users are bad, and
    some have the key of an earlier line, which may be far away."""
    expected = Outcome({}, {})
    ids: dict[str, int] = {}
    emails: dict[str, int] = {}
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER + "\n")
        for number in range(1, count + 1):
            line = number + 1
            key, email, role = identity(number), f"user{number}@example.org", "reader"
            trouble = chance.random() / bad if bad else 1.0
            if trouble < 0.2:
                email = f"user{number}.example.org"
            elif trouble < 0.4:
                role = "captain"
            elif trouble < 0.7:
                email = f"USER{chance.randint(1, number)}@Example.ORG"
            elif trouble < 1.0:
                key = identity(chance.randint(1, number))
            file.write(f"{key},{email},Name {number},{role},true\n")
            codes = ["invalid_email_format"] if "@" not in email else ["invalid_role"] if role == "captain" else []
            if not codes:
                # The first record with a key that passes the rules owns the key, whether or not it is loaded itself.
                owner_of_id = ids.setdefault(key, line)
                owner_of_email = emails.setdefault(email.lower(), line)
                codes = ["duplicate_id"] * (owner_of_id != line) + ["duplicate_email"] * (owner_of_email != line)
            if codes:
                expected.rejects[line] = codes
            else:
                expected.rows[key] = (key, email, f"Name {number}", role, True, line)
    return expected


def submitted(engine: Engine, source: Path, **options: Any) -> Job:
    request = Options("users", **options).request((RequestedFile(str(source), source.stat().st_size),))
    with transaction(engine) as connection:
        job = submission.submit(connection, request, Sender("me", "cli")).job
        return jobs.start(connection, job.job_key)


def found(engine: Engine, job: Job) -> Outcome:
    """Return the users in the database, whoever put them there, and the job's rejects."""
    with transaction(engine) as connection:
        rows = connection.execute("SELECT id::text, email, name, role, active, import_line FROM users").fetchall()
        rejects = connection.execute(
            "SELECT line, ARRAY(SELECT each->>'code' FROM jsonb_array_elements(reasons) AS each) FROM rejected_row"
            " WHERE job_id = %s",
            [job.job_id],
        ).fetchall()
    return Outcome({row[0]: row for row in rows}, dict(rejects))


def differences(expected: Outcome, came: Outcome) -> list[str]:
    """Return a few words on each of the first ten differences: whole tables in an assertion would help nobody."""
    said = [f"missing row {row}" for key, row in expected.rows.items() if key not in came.rows]
    said += [f"surplus row {row}" for key, row in came.rows.items() if key not in expected.rows]
    said += [f"{row} became {came.rows[key]}" for key, row in expected.rows.items() if came.rows.get(key, row) != row]
    lines = sorted(expected.rejects.keys() | came.rejects.keys())
    said += [
        f"line {line} is rejected for {came.rejects.get(line)}, not {expected.rejects.get(line)}"
        for line in lines
        if sorted(came.rejects.get(line, [])) != sorted(expected.rejects.get(line, []))
    ]
    return said[:10]


def worker(url: str, home: Path, job: Job, log: Path, *, rows: int = 0) -> subprocess.Popen[bytes]:
    """Start a process that plans the job if need be and works it until it is over. `rows`, if not 0, fixes its batch
    size."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines_tests.chaos.imports.worker", job.job_key, str(rows)],
            env=os.environ | {"BULK_DATABASE_URL": url, "BULK_HOME": str(home)},
            cwd=CHECKOUT,
            stdout=output,
            stderr=output,
        )


def refreshed(engine: Engine, job: Job) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job.job_key)
