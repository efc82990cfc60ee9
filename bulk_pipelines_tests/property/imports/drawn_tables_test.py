"""Whatever table somebody has made, an import does what a plain INSERT or UPDATE of each record would do, and what is
exported imports again to the identical table."""

import random
import tempfile
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.context import matching_key
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes import drawn_files, drawn_oracle, drawn_tables
from bulk_pipelines_tests.scenes.drawn_oracle import Oracle, Outcome, insert, stored, tries
from bulk_pipelines_tests.scenes.drawn_tables import Drawn
from bulk_pipelines_tests.scenes.oracle import Sizes, hasty, killed_process, process, small
from bulk_pipelines_tests.scenes.today import SEED
from bulk_pipelines_tests.scenes.whole_imports import imported, refreshed, submitted

AT_ONCE = 16
"""How many tables a test draws while nobody waits long for it."""


@pytest.fixture
def database(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(drawn_tables.PREPARED.encode(), prepare=False)
    return engine


@pytest.mark.parametrize("seed", range(SEED * AT_ONCE, SEED * AT_ONCE + AT_ONCE))
def test_a_drawn_table(database: Engine, seed: int) -> None:
    check(database, seed)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_drawn_tables(database: Engine) -> None:
    for seed in range(SEED * 1000, SEED * 1000 + 150):
        check(database, seed)
        with pool.transaction(database) as connection:
            connection.execute(f"DROP TABLE {drawn_tables.drawn(seed).place} CASCADE".encode())


def check(engine: Engine, seed: int) -> None:
    """Import the records of the table that is drawn by this seed, and compare with the oracle."""
    table, chance = drawn_tables.drawn(seed), random.Random(seed)
    declared = made(engine, table)
    format_ = chance.choice(list(drawn_files.WRITERS))
    drawn_files.fit(table, declared, format_)
    mode = chance.choice(["insert", "upsert"]) if declared.narrowed(table.given).keys else "insert"
    wanted = expected(engine, table, declared, mode)
    before = rows_of(engine, table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"records.{format_}"
        drawn_files.WRITERS[format_](table, path)
        job = worked(engine, path, declared, mode, chance)
    lines, reasons = drawn_files.lines_of(table, format_), reasons_of(engine, job)
    rejected = {lines.index(line): codes for line, codes in reasons.items()}
    rows = rows_of(engine, table)
    shown = f"SEED {seed}: {mode} of {format_}\n{table}\nrejected {rejected}\nby hand {wanted.rejected}"
    if is_exact(table, declared):
        assert rejected.keys() == wanted.rejected.keys(), shown
        assert rows == wanted.rows, shown
    else:
        duplicates = {number for number, said in wanted.rejected.items() if said.startswith(drawn_oracle.DUPLICATE)}
        assert duplicates <= rejected.keys(), shown
        if mode == "insert":
            assert len(rows) == len(before) + len(table.records) - len(rejected), shown
            refused = {number for number, codes in rejected.items() if "duplicate_key" not in codes} - duplicates
            assert still_refused(engine, table, refused) == refused, shown
    check_again(engine, table, declared, chance.choice(drawn_files.AGAIN))


def worked(engine: Engine, path: Path, declared: Resource, mode: str, chance: random.Random) -> Job:
    """Import the file by several lanes in small batches, whose process may be killed."""
    sizes = Sizes(chance.choice([100, 100_000]), chance.choice([1, 3, 1000]), step=1 << 16, lanes=chance.choice([1, 2]))
    job = submitted(engine, declared.name, [path], declaration=declared, mode=mode)
    with pool.transaction(engine) as connection:
        job = jobs.start(connection, job.job_key)
    kinds = hasty(10, sizes.rows)
    with small(sizes):
        if chance.random() < 0.3:
            killed_process(engine, job, sizes, kinds, at=chance.randint(3, 40))
        if not refreshed(engine, job).finished:
            process(engine, engine, job, sizes, kinds)
    return refreshed(engine, job)


def made(engine: Engine, table: Drawn) -> Resource:
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        if connection.info.server_version < 180_000:
            table.ddl = table.ddl.replace(" VIRTUAL", " STORED")
        connection.execute(table.ddl.encode(), prepare=False)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for record in table.before:
            tries(connection, *insert(drawn_oracle.place_of(table), record, list(table.kinds)))
        if table.traced:
            connection.execute("SELECT bulk.trace_imports(%s::regclass)", [table.place])
    with pool.transaction(engine) as connection:
        return reflection.reflect(connection, table.place)


def expected(engine: Engine, table: Drawn, declared: Resource, mode: str) -> Outcome:
    """Ask the oracle, and undo what it did."""
    narrowed = declared.narrowed(table.given)
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with pool.single(url) as connection, connection.transaction(force_rollback=True):
        namespaces.turn_to_theirs(connection)
        oracle = Oracle(connection, table, narrowed)
        return oracle.insert() if mode == "insert" else oracle.upsert(matching_key(narrowed, None, tuple(table.given)))


def is_exact(table: Drawn, declared: Resource) -> bool:
    """Whether the file and the table alone decide which records are loaded: no constraint that only the table knows
    lets one of them exclude another."""
    knows_keys = declared.narrowed(table.given).keys == declared.keys
    return knows_keys and not any(word in table.ddl for word in drawn_tables.EXCLUDING)


def rows_of(engine: Engine, table: Drawn) -> list[drawn_oracle.Row]:
    with pool.transaction(engine) as connection:
        return stored(connection, table)


def reasons_of(engine: Engine, job: Job) -> dict[int, set[str]]:
    with pool.transaction(engine) as connection:
        found = rejects.every(connection, job.job_id)
        return {each.line: {reason["code"] for reason in each.reasons} for each in found}


def still_refused(engine: Engine, table: Drawn, numbers: set[int]) -> set[int]:
    """Return those of these records that a plain INSERT cannot add either, now that all is over."""
    refused = set()
    with pool.transaction(engine) as connection, connection.transaction(force_rollback=True):
        namespaces.turn_to_theirs(connection)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for number in numbers:
            try:
                with connection.transaction(force_rollback=True):
                    statement, values = insert(drawn_oracle.place_of(table), table.records[number], table.given)
                    if not connection.execute(statement, values, prepare=False).rowcount:
                        refused.add(number)
            except psycopg.Error:
                refused.add(number)
    return refused


def has_no_end(rows: list[drawn_oracle.Row]) -> bool:
    """Whether a row holds a date or a time that Parquet does not have."""
    return any(value in {"infinity", "-infinity"} for row in rows for value in row)


def check_again(engine: Engine, table: Drawn, declared: Resource, format_: Format) -> None:
    """See that the rows come back as they are from a file of this format."""
    before = rows_of(engine, table)
    if not before:
        return
    request = ExportRequest(declared.name, format_, declaration=declared)
    with tempfile.TemporaryDirectory() as folder:
        if format_ is Format.PARQUET and has_no_end(before):
            with pytest.raises(InvalidInput, match="infinity"):
                write(engine, request, LocalStorage(Path(folder)), f"again{request.suffix}")
            return
        write(engine, request, LocalStorage(Path(folder)), f"again{request.suffix}")
        with pool.transaction(engine) as connection:
            connection.execute(f"DELETE FROM {table.place}".encode())
        path = Path(folder) / f"again{request.suffix}"
        job = imported(engine, declared.name, path, declaration=declared)
    assert reasons_of(engine, job) == {}, (format_, table)
    assert rows_of(engine, table) == before, (format_, table)
