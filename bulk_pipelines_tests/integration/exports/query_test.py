"""Exports of queries: the rows of any SELECT, with the promises that exports of tables make, and nothing but
a SELECT."""

import csv
import io
import json
import threading
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import submission
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.work import Point
from bulk_pipelines_tests.scenes import exports
from bulk_pipelines_tests.scenes.export_files import insert_users, names_in, watching

MIXED = """
-- every kind of value, a percent sign: %s, a name that looks like a parameter: :role
SELECT n AS number, n * 1.5 AS "net price", 'it''s :role, 100 %' AS text, NULL::text AS nothing,
    DATE '2026-01-31' + n AS day, TIMESTAMPTZ '2026-01-31 12:00Z' AS moment, jsonb_build_object('n', n) AS json,
    ARRAY['a', NULL, 'c'] AS list, point(n, 1) AS point, n % 2 = 0 AS even
FROM generate_series(1, 3) AS n
ORDER BY n DESC -- the end
;
"""


@pytest.fixture(autouse=True)
def _settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))


def started(engine: Engine, query: str, **params: Any) -> Job:
    with transaction(engine) as connection:
        source = submission.source(connection, None, None, query)
        request = ExportRequest.parse(source | params)
    with transaction(engine) as connection:
        job = submission.submit(connection, request, Sender("me", "cli")).job
        return jobs.start(connection, job.job_key)


def printed(query: str, *options: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["export", "--query", "-", "--to", "-", *options], input=query)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def test_every_format_holds_the_rows_in_their_order(engine: Engine, tmp_path: Path) -> None:
    for name in ("csv", "ndjson", "json", "parquet", "xlsx", "arrow"):
        job = exports.worked(engine, started(engine, MIXED, format=name, to=f"{tmp_path / name}/"))
        assert job.result is not None, job.last_error
        assert job.result["rows"] == 3
    (file,) = (tmp_path / "csv").iterdir()
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["number"] for row in rows] == ["3", "2", "1"]
    assert rows[0] | {"json": ""} == {
        "number": "3",
        "net price": "4.5",
        "text": "it's :role, 100 %",
        "nothing": "",
        "day": "2026-02-03",
        "moment": "2026-01-31 12:00:00+00",
        "json": "",
        "list": "{a,NULL,c}",
        "point": "(3,1)",
        "even": "false",
    }
    (table,) = (tmp_path / "parquet").iterdir()
    found = pq.read_table(table).to_pylist()
    assert [(row["number"], row["even"], row["point"]) for row in found] == [
        (3, False, "(3,1)"),
        (2, True, "(2,1)"),
        (1, False, "(1,1)"),
    ]


def test_to_standard_output_and_narrowed(engine: Engine) -> None:
    insert_users(engine, 8)
    query = "SELECT id, email, role, import_job FROM users"
    assert len(printed(query, "--format", "ndjson").splitlines()) == 8
    rows = [json.loads(line) for line in printed(query, "--format", "ndjson", "--where", "role=admin").splitlines()]
    assert {row["role"] for row in rows} == {"admin"}
    assert list(rows[0]) == ["id", "email", "role", "import_job"]
    assert printed("TABLE users", "--fields", "role,email", "--order", "-email").startswith("role,email\n")
    assert printed("VALUES (1, 'a')").splitlines() == ["column1,column2", "1,a"]
    assert printed("SELECT 1 AS n WHERE false", "--format", "json") == "[]\n"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "syntax error"),
        ("SELECT", "it returns no columns"),
        ("SELECT 1", "a column has no name"),
        ("SELECT id, id FROM users", "two of its columns are called id"),
        ("SELECT nothing FROM users", 'column "nothing" does not exist'),
        ("SELECT 1 AS n; DROP TABLE users", "it has to be one SELECT"),
        ("SELECT 1 AS n) AS given; DROP TABLE users; --", "it has to be one SELECT"),
        ("DELETE FROM users RETURNING id", "it has to be one SELECT"),
        ("WITH gone AS (DELETE FROM users RETURNING id) SELECT * FROM gone", "it has to be one SELECT"),
        ("SELECT * FROM users FOR UPDATE", "read-only transaction"),
        ("SELECT $1 AS n", "it has to be one SELECT"),
        ("COPY users TO STDOUT", "it has to be one SELECT"),
        ("SELECT 1/0 AS n", "division by zero"),
        ("SELECT nextval('bulk.job_number') AS n", "read-only transaction"),
        ("SELECT set_config('transaction_read_only', 'off', false) AS n, lo_create(0) AS o", "read-write mode"),
    ],
)
def test_anything_else_is_refused_and_changes_nothing(engine: Engine, query: str, said: str) -> None:
    insert_users(engine, 3)
    shown = printed(query, code=1)
    assert "query: " in shown
    assert said in shown
    assert "Traceback" not in shown
    with watching(engine) as connection:
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (0,)


def test_a_file_is_published_once_whoever_dies(engine: Engine, tmp_path: Path) -> None:
    """A try dies right after it has published; the next one takes its file."""
    job = started(engine, "SELECT n FROM generate_series(1, 1000) AS n", to=f"{tmp_path / 'out'}/")
    published = []

    def die() -> None:
        published.append((tmp_path / "out").iterdir().__next__().stat().st_mtime_ns)
        if len(published) == 1:
            raise ConnectionError("lost")

    job = exports.worked(engine, job, {Point.PUBLISHED: die})
    (name,) = names_in(tmp_path / "out")
    assert name == f"query-{job.job_key}.csv"
    assert len(published) == 1
    assert job.result is not None
    assert job.result["rows"] == 1000


def test_all_rows_are_of_one_moment(engine: Engine, tmp_path: Path) -> None:
    """Others move sums between the rows while they are read; their total is the same at every moment."""
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE public.account (id int PRIMARY KEY, amount int NOT NULL)")
        connection.execute("INSERT INTO public.account SELECT n, 0 FROM generate_series(1, 2000) AS n")
    move = "UPDATE public.account SET amount = amount + CASE id WHEN 1 THEN 1 ELSE -1 END WHERE id IN (1, 2000)"
    query = "SELECT id, amount, pg_sleep(0.0002)::text AS slow FROM public.account ORDER BY id"
    for name in ("csv", "parquet"):
        job = started(engine, query, format=name, to=f"{tmp_path / name}/")
        over = threading.Event()

        def moving(over: threading.Event = over) -> None:
            while not over.wait(0.002):
                with watching(engine) as connection:
                    connection.execute(move)

        mover = threading.Thread(target=moving)
        mover.start()
        try:
            job = exports.worked(engine, job)
        finally:
            over.set()
            mover.join()
        assert job.result is not None, job.last_error
        assert job.result["rows"] == 2000
    (text,) = (tmp_path / "csv").iterdir()
    assert sum(int(row["amount"]) for row in csv.DictReader(io.StringIO(text.read_text()))) == 0
    (table,) = (tmp_path / "parquet").iterdir()
    assert sum(row["amount"] for row in pq.read_table(table).to_pylist()) == 0
    with watching(engine) as connection:
        row = connection.execute("SELECT amount FROM public.account WHERE id = 1").fetchone()
    assert row is not None
    assert row[0] > 0, "sums were moved"


def test_a_query_that_is_wrong_is_not_tried_again(engine: Engine, tmp_path: Path) -> None:
    for name in ("csv", "json"):
        job = started(
            engine, "SELECT 1 / (n - 500) AS n FROM generate_series(1, 1000) AS n", format=name, to=f"{tmp_path}/"
        )
        job = exports.worked(engine, job)
        assert (job.status, job.dlq_items) == ("FAILED", 1)
        with watching(engine) as connection:
            row = connection.execute(
                "SELECT attempt_count, error_message FROM job_item WHERE job_id = %s", [job.job_id]
            ).fetchone()
        assert row is not None
        assert row[0] == 1
        assert "division by zero" in row[1]
    assert names_in(tmp_path) == []


def test_its_kind_is_that_of_undeclared_tables(engine: Engine) -> None:
    job = started(engine, "SELECT 1 AS n")
    assert job.kind == "export_any_table"
    again = ExportRequest.parse(job.params)
    assert (again.query, again.resource, [column.name for column in again.columns]) == ("SELECT 1 AS n", "query", ["n"])
    with pytest.raises(InvalidInput, match="not known which columns"):
        ExportRequest.parse({"resource": "users", "query": "SELECT 1"})
    with transaction(engine) as connection, pytest.raises(InvalidInput, match="either a resource"):
        submission.source(connection, "users", None, "SELECT 1 AS n")
    with transaction(engine) as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        submission.source(connection, None, None, "SELECT 1 AS n")
        connection.execute("DELETE FROM users")
