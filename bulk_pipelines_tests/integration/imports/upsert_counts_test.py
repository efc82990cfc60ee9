"""What an upsert says of its records: whose rows are new, whose rows it changed, and whose rows said the same
already."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import progress, submission
from bulk_pipelines.imports.report import answer, watching
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import adoption
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, worked

EVERY = """
CREATE DOMAIN public.code AS varchar(4) CHECK (value <> 'bad');
CREATE TYPE public.mood AS ENUM ('glad', 'sad');
CREATE TABLE public.thing (
    id int PRIMARY KEY, price numeric(10, 2), name varchar(10), fixed char(5), code public.code, mood public.mood,
    plain json, doc jsonb, list int[], place point, raw bytea, at timestamptz, day date, ratio double precision,
    ok boolean, key uuid, net inet, span interval
)
"""
ROW = {
    "id": 1,
    "price": "1.50",
    "name": "Ann",
    "fixed": "ab",
    "code": "x",
    "mood": "glad",
    "plain": {"a": 1},
    "doc": {"b": 2, "a": 1},
    "list": "{1,NULL,3}",
    "place": "(1,2)",
    "raw": "\\x00ff",
    "at": "2026-01-31T12:00:00Z",
    "day": "2026-01-31",
    "ratio": 0.1,
    "ok": True,
    "key": "6b1f7b1e-0000-4000-8000-000000000001",
    "net": "10.0.0.1",
    "span": "1 day",
}
OTHER = {
    "price": "1.51",
    "name": "ann",
    "fixed": "AB",
    "code": "y",
    "mood": "sad",
    "plain": {"a": 2},
    "doc": {"b": 3, "a": 1},
    "list": "{1,2,3}",
    "place": "(1,3)",
    "raw": "\\x00fe",
    "at": "2026-01-31T12:00:01Z",
    "day": "2026-02-01",
    "ratio": 0.2,
    "ok": False,
    "key": "6b1f7b1e-0000-4000-8000-000000000002",
    "net": "10.0.0.2",
    "span": "2 days",
}


def upserted(engine: Engine, path: Path, table: str) -> Job:
    with transaction(engine) as connection:
        declared = adoption.chosen(connection, None, table)
        request = Options(declared.name, mode="upsert", declaration=declared).request((RequestedFile.of(str(path)),))
        job = submission.submit(connection, request, Sender("me", "cli")).job
    return worked(engine, begun(engine, job))


def told(engine: Engine, job: Job) -> tuple[int, int, int]:
    with transaction(engine) as connection:
        counts = progress.read(connection, job.job_id).counts
        shown = answer.as_json(job, answer.figures(connection, [job.job_id])[job.job_id])
    found = (counts.inserted, counts.updated, counts.unchanged)
    assert (shown["inserted_records"], shown["updated_records"], shown["unchanged_records"]) == found
    assert job.result is not None
    assert (job.result["inserted"], job.result["updated"], job.result["unchanged"]) == found
    return found


def test_every_kind_of_value_is_compared_as_the_table_keeps_it(engine: Engine, tmp_path: Path) -> None:
    with transaction(engine) as connection:
        connection.execute(EVERY)
    path = tmp_path / "things.ndjson"

    def upsert(row: Mapping[str, object]) -> tuple[int, int, int]:
        path.write_text(json.dumps(row) + "\n")
        return told(engine, upserted(engine, path, "public.thing"))

    assert upsert(ROW) == (1, 0, 0)
    # The same, although 1.5 is written otherwise than 1.50, and a char(5) has blanks at its end.
    assert upsert(ROW | {"price": "1.5"}) == (0, 0, 1)
    assert upsert({**ROW, "name": None}) == (0, 1, 0), "a value goes"
    assert upsert(ROW) == (0, 1, 0), "a value comes"
    for name, value in OTHER.items():
        assert upsert(ROW | {name: value}) == (0, 1, 0), name
        assert upsert(ROW) == (0, 1, 0), name


@pytest.mark.parametrize("match_on", [None, "email"])
def test_new_changed_and_equal_rows_with_rejects_among_them(
    engine: Engine, tmp_path: Path, match_on: str | None
) -> None:
    path = tmp_path / "users.csv"
    path.write_text("email,name,role\nann@x.org,Ann,reader\nBob@x.org,Bob,reader\n")
    imported(engine, "users", path)
    path.write_text(
        "email,name,role\nann@x.org,Ann,reader\nBob@x.org,Robert,reader\ncy@x.org,Cy,reader\n"
        "dee@x.org,Dee,king\ncy@x.org,Cyrus,reader\n"
    )
    job = imported(engine, "users", path, mode="upsert", match_on=match_on)
    assert told(engine, job) == (1, 1, 1)
    seen = watching.look(engine, job.job_key)
    summary = watching.summary(seen)
    assert "3 loaded (1 inserted, 1 updated, 1 unchanged), 1 rejected, 1 superseded" in summary
    assert "matched on email" in summary
    assert f"({seen.job.result['rows_per_second']:,.0f} rows/s)" in summary  # type: ignore[index]
    gauge = watching.gauge(seen)
    assert gauge.rows / gauge.seconds == pytest.approx(seen.job.result["rows_per_second"], rel=0.05)  # type: ignore[index]
    assert imported(engine, "users", path, mode="upsert", match_on=match_on).result["unchanged"] == 3  # type: ignore[index]


def test_records_that_the_table_refuses_are_no_changes(engine: Engine, tmp_path: Path) -> None:
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE public.stock (id int PRIMARY KEY, n int CHECK (n < 100))")
        connection.execute("INSERT INTO public.stock SELECT n, n FROM generate_series(1, 50) AS n")
    path = tmp_path / "stock.csv"
    lines = [f"{n},{n}" for n in range(1, 21)]
    lines += [f"{n},{500 if n % 2 else 60}" for n in range(21, 41)]
    lines += [f"{n},{500 if n % 2 else 70}" for n in range(101, 121)]
    path.write_text("id,n\n" + "\n".join(lines) + "\n")
    job = upserted(engine, path, "public.stock")
    assert told(engine, job) == (10, 10, 20)
    assert job.result is not None
    assert (job.result["match_on"], job.result["rejected"]) == ("id", 20)
    with pool.single(engine.url.render_as_string(hide_password=False)) as connection:
        assert connection.execute("SELECT count(*) FROM public.stock").fetchone() == (60,)
