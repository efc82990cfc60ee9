"""Lanes that are killed while they load a table that says nothing of where its rows come from: the table and the
rejects are exact in the end."""

import random
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import reflection
from bulk_pipelines_tests.scenes.imports import worker
from bulk_pipelines_tests.scenes.waiting import until

RECORDS = 60_000
PATIENCE = 240.0
SCHEMA = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (
    id bigint PRIMARY KEY,
    code text UNIQUE,
    total numeric(10, 2) NOT NULL CONSTRAINT total_is_no_loss CHECK (total >= 0),
    tags integer[]
);
INSERT INTO shop.orders VALUES (7, 'held', 0, NULL);
"""


def written(path: Path, chance: random.Random) -> tuple[dict[int, str], dict[int, str]]:
    """Write a file of orders. Return the totals that the table must have in the end, by id, and the code of the reason
    against each rejected record, by its line. The first record of an id counts."""
    totals, reasons, seen = {7: "0"}, {}, set[int]()
    with path.open("w") as file:
        file.write("id,code,total,tags\n")
        for line in range(2, RECORDS + 2):
            identity = chance.randint(1, RECORDS * 4 // 5) + 7
            total = chance.choice(["1.50"] * 60 + ["-1.00", "1.005", "x"])
            if line % 5_000 == 0:
                identity = 7
            file.write(f'{identity},c{identity},{total},"{{1,{line}}}"\n')
            if total in {"1.005", "x"}:
                reasons[line] = "does_not_fit" if total == "1.005" else "invalid_number"
            elif identity in seen or identity == 7:
                reasons[line] = "duplicate_key"
            elif total == "-1.00":
                reasons[line] = "refused_by_table"
                seen.add(identity)
            else:
                totals[identity] = f"{total} {line}"
                seen.add(identity)
    return totals, reasons


@pytest.mark.long
def test_killed_lanes_leave_a_table_without_provenance_exact(
    engine: Engine, database_url: str, tmp_path: Path, chance: random.Random
) -> None:
    with transaction(engine) as connection:
        connection.execute(SCHEMA.encode(), prepare=False)
    totals, reasons = written(tmp_path / "orders.csv", chance)
    with transaction(engine) as connection:
        declared = reflection.reflect(connection, "shop.orders")
        options = Options(declared.name, declaration=declared)
        request = options.request((RequestedFile.of(str(tmp_path / "orders.csv")),))
        job = submission.submit(connection, request, Sender("me", "cli")).job
        job = jobs.start(connection, job.job_key)
    log = tmp_path / "worker.log"

    def read() -> int:
        with pool.single(database_url) as connection:
            row = connection.execute("SELECT read FROM import_count WHERE job_id = %s", [job.job_id]).fetchone()
        return int(row[0]) if row else 0

    for _ in range(5):
        lanes = [worker(database_url, tmp_path, job, log, rows=1_000) for _ in range(2)]
        target = min(read() + chance.randint(0, RECORDS // 6), RECORDS - 1)
        until(
            lambda lanes=lanes, target=target: read() >= target or all(each.poll() is not None for each in lanes),  # type: ignore[misc]
            "the import has come so far",
            PATIENCE,
        )
        for lane in lanes:
            lane.kill()
            lane.wait(10)
    last = worker(database_url, tmp_path, job, log)
    assert last.wait(PATIENCE) == 0, log.read_text()[-3_000:]
    with transaction(engine) as connection:
        ended = jobs.find(connection, job.job_key)
        assert ended.status == "COMPLETED_WITH_ERRORS", f"{ended.last_error} {log.read_text()[-3_000:]}"
        found = connection.execute(
            "SELECT id, CASE id WHEN 7 THEN '0' ELSE total || ' ' || tags[2] END FROM shop.orders"
        ).fetchall()
        rejects = connection.execute("SELECT line, reasons -> 0 ->> 'code' FROM rejected_row").fetchall()
        staged = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relname ~ '^import_(aside|ledger)_'"
        ).fetchone()
    assert dict(found) == totals
    assert dict(rejects) == reasons
    assert staged == (0,)
    assert ended.result is not None
    assert (ended.result["read"], ended.result["loaded"]) == (RECORDS, len(totals) - 1)
