"""Frames that somebody else's assets return, as imports with every check."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from bulk_pipelines.components import frame_imports, frame_types, frames
from bulk_pipelines.components.frame_imports import Origin
from bulk_pipelines.components.frames import BulkIOManager, rows_of
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports.request import Options
from bulk_pipelines.resources import find
from bulk_pipelines_tests.scenes import frame_step, shop, whole_imports
from bulk_pipelines_tests.scenes.frames import NAMES, Project, error_of, people, project, shown_by
from bulk_pipelines_tests.scenes.imports import SLOW_TABLE

__all__ = ["project"]


def test_polars(project: Project) -> None:
    pl: Any = pytest.importorskip("polars", reason="polars is not installed: it is no dependency")
    job = project.imported(people(*NAMES))
    assert rows_of(job.job_key, pl.DataFrame, database=project.database)["name"].to_list() == NAMES
    lazy = rows_of(job.job_key, pl.LazyFrame, database=project.database)

    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "users"})
    def more():  # type: ignore[no-untyped-def]
        return lazy.select("name", "role", email=pl.lit("new-") + pl.col("email"))

    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "users"})
    def most():  # type: ignore[no-untyped-def]
        return lazy.select("name", "role", email=pl.lit("most-") + pl.col("email")).collect()

    result = project.materialize(more, most)
    assert result.success, error_of(result)
    assert project.query("SELECT count(*) FROM users") == [(9,)]


def as_pandas(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows).set_index("email")


def as_table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows).cast(pa.schema([(name, pa.string_view()) for name in rows[0]]))


def as_reader(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows).to_reader(max_chunksize=2)


@pytest.mark.parametrize("made", [as_pandas, as_table, as_reader])
def test_a_frame_is_imported_with_every_check(project: Project, made: Any) -> None:
    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "users"})
    def found():  # type: ignore[no-untyped-def]
        return made([*people(*NAMES), {"email": "no", "name": "N", "role": "king"}])

    @dg.asset
    def after(found: pd.DataFrame) -> None:
        assert found["name"].tolist() == NAMES

    result = project.materialize(found, after, frames.rejected(found))
    assert result.success, error_of(result)
    shown = shown_by(result, "found")
    assert (shown["rows_read"], shown["rows_loaded"], shown["rows_rejected"], shown["state"]) == (
        4,
        3,
        1,
        "COMPLETED_WITH_ERRORS",
    )
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.description) == (False, "1 of 4 rows were rejected")
    (event,) = result.asset_materializations_for_node("found")
    for table in (check.metadata["first_rejects"], event.metadata["first_rejects"]):
        assert isinstance(table, dg.TableMetadataValue)
        (reject,) = table.records
        assert (reject.data["line"], reject.data["reasons"]) == (4, "invalid_email_format, invalid_role")
    with transaction(project.engine) as connection:
        job = jobs.find(connection, shown[frames.JOB])
    assert (job.owner, job.dagster_run_id) == ("found", result.run_id)


def test_an_import_that_fails_fails_the_step_with_its_reason(project: Project) -> None:
    rows: list[Any] = [pa.Table.from_pylist([{"email": "no", "name": "N", "role": "king"}])]

    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "users"})
    def found():  # type: ignore[no-untyped-def]
        return rows[0]

    result = project.materialize(found)
    assert not result.success
    assert "nothing could be loaded: the only record was rejected" in error_of(result)
    (failed,) = [each.step_failure_data for each in result.all_events if each.is_step_failure]
    assert failed.user_failure_data is not None
    assert failed.user_failure_data.metadata["rows_rejected"].value == 1
    for value, said in [
        (pa.table({"email": ["a@b.cd"]}), "do not fit users: missing: name, role"),
        ("no frame", "a str is neither"),
        (None, "a NoneType is neither"),
        (pd.DataFrame({"email": [1, "a"]}), "Conversion failed for column email"),
        (pa.table({"email": ["a@b.cd"], "name": ["A"], "role": ["author"], "shoe": [42]}), "shoe"),
    ]:
        rows[0] = value
        result = project.materialize(found)
        assert not result.success
        assert said in error_of(result)
    assert project.query("SELECT count(*) FROM users") == [(0,)]


def test_several_frames_in_one_run(project: Project) -> None:
    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "users"})
    def some() -> pa.Table:
        return pa.Table.from_pylist(people("Ann"))

    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "users"})
    def others() -> pa.Table:
        return pa.Table.from_pylist(people("Bob"))

    result = project.materialize(some, others)
    assert result.success, error_of(result)
    assert project.query("SELECT name FROM users ORDER BY name") == [("Ann",), ("Bob",)]


def test_an_empty_frame_imports_nothing(project: Project) -> None:
    got = []

    @dg.asset(io_manager_key="bulk")
    def users() -> pd.DataFrame:
        return pd.DataFrame({"email": [], "name": [], "role": []})

    @dg.asset
    def after(users: pa.Table) -> None:
        got.append((users.num_rows, "email" in users.column_names))

    result = project.materialize(users, after, frames.rejected(users))
    assert result.success, error_of(result)
    assert got == [(0, True)]
    assert all(each.passed for each in result.get_asset_check_evaluations())


def test_any_table_and_upserts_and_partitions(project: Project) -> None:
    shop.opened(project.engine)
    days = dg.StaticPartitionsDefinition(["mon", "tue"])

    @dg.asset(io_manager_key="bulk", metadata={frames.TABLE: "shop.customers"}, partitions_def=days)
    def clients(context: dg.AssetExecutionContext) -> pd.DataFrame:
        number = {"mon": 100, "tue": 200}[context.partition_key]
        return pd.DataFrame({"id": [1, number], "email": ["c1@b.cd", f"{number}@b.cd"], "name": ["One", "New"]})

    manager = BulkIOManager(url=project.url, mode="upsert", match_on="id")
    for day in ("mon", "tue", "mon"):
        result = project.materialize(clients, partition_key=day, manager=manager)
        assert result.success, error_of(result)
    found = project.query("SELECT id, name FROM shop.customers WHERE id = 1 OR id >= 100 ORDER BY id")
    assert found == [(1, "One"), (100, "New"), (200, "New")]

    @dg.asset(partitions_def=days)
    def after(clients: pd.DataFrame) -> None:
        """Never gets anything: the table does not say where its rows come from."""

    result = project.materialize(clients, after, partition_key="mon", manager=manager)
    assert "do not say which import they come from" in error_of(result)


def spooled(project: Project, table: pa.Table, origin: Origin) -> Job:
    declared = find("users")
    with frame_types.spooled(table) as (file, _):
        return frame_imports.imported(project.engine, file, Options("users", format="arrow"), declared, origin)


def test_a_step_that_is_tried_again_goes_on_with_its_job(project: Project) -> None:
    table = pa.Table.from_pylist(people(*NAMES))
    others = pa.Table.from_pylist(people("Dan"))
    first = Origin("found", "found in run 1", "run 1", lambda: False)
    again = Origin("found", "found in run 1", "run 2", lambda: False)
    with frame_types.spooled(table) as (file, _):
        begun = frame_imports.submitted(
            project.engine, frame_imports.Sent(file, Options("users", format="arrow"), "found"), first
        )
    with pytest.raises(Conflict, match=f"has sent other rows, as job {begun.job_key}, which is SUBMITTED"):
        spooled(project, others, again)
    for origin in (first, again):
        assert spooled(project, table, origin).job_key == begun.job_key
    assert project.query("SELECT count(*) FROM users") == [(3,)]
    second = spooled(project, others, again)
    assert (second.job_key != begun.job_key, second.result and second.result["loaded"]) == (True, 1)
    for _ in range(2):
        with pytest.raises(dg.Failure, match="the only record was rejected"):
            spooled(project, pa.Table.from_pylist([{"email": "no", "name": "N", "role": "author"}]), again)
    assert project.query("SELECT count(*) FROM job") == [(4,)]


@pytest.mark.long
def test_a_step_that_is_killed_loads_no_row_twice(project: Project) -> None:
    with transaction(project.engine) as connection:
        connection.execute(SLOW_TABLE.encode(), prepare=False)
    job = frame_step.begun_and_killed(project.engine, project.url, project.folder)
    with transaction(project.engine) as connection:
        connection.execute("DROP TRIGGER be_slow ON users")
        before = jobs.find(connection, job.job_key)
    assert before.status is JobState.RUNNING
    done = spooled(project, frame_step.table(), frame_step.ORIGIN)
    assert (done.job_key, done.status) == (job.job_key, JobState.COMPLETED)
    assert project.query("SELECT count(*), count(DISTINCT import_line) FROM users") == [(frame_step.ROWS,) * 2]


def test_columns_of_every_kind(project: Project) -> None:
    shop.opened(project.engine)
    rows = {
        "id": pd.Series([1, 2], dtype="Int64"),
        "customer_id": [1.0, 2.0],
        "number": pd.Categorical(["A", None]),
        "total": [Decimal("1.10"), Decimal("12345678.99")],
        "ordered": [date(2026, 1, 10)] * 2,
        "paid_at": pd.to_datetime(["2026-01-10T12:00:00.5+02:00", None], utc=True).astype("datetime64[ns, UTC]"),
        "status": pd.Categorical(["paid", "new"]),
        "details": ['{"a": [1]}', None],
        "weight": [float("nan"), 1e300],
        "tags": [["a", "b,c"], []],
    }

    @dg.asset(io_manager_key="bulk", metadata={frames.TABLE: "shop.orders"})
    def orders() -> pd.DataFrame:
        return pd.DataFrame(rows)

    result = project.materialize(orders)
    assert result.success, error_of(result)
    assert shown_by(result, "orders")["rows_loaded"] == 2, shown_by(result, "orders")
    found = project.query(
        "SELECT id, customer_id, number, total::text, ordered::text, extract(epoch FROM paid_at)::float8, status::text,"
        " details::text, weight, tags FROM shop.orders ORDER BY id"
    )
    paid = datetime(2026, 1, 10, 10, 0, 0, 500_000, tzinfo=UTC).timestamp()
    assert found == [
        (1, 1, "A", "1.10", "2026-01-10", paid, "paid", '{"a": [1]}', None, ["a", "b,c"]),
        (2, 2, None, "12345678.99", "2026-01-10", None, "new", None, 1e300, []),
    ]


def test_a_frame_goes_back_as_it_came(project: Project) -> None:
    (author,) = project.imported_author()
    rows = [
        {"slug": "one", "title": "Ön", "body": NAMES[1], "author_id": author, "status": "draft", "tags": '["a","b,c"]'},
        {"slug": "two", "title": "2", "body": "x", "author_id": author, "status": "draft", "tags": "[]"},
    ]
    first = project.imported(rows, "articles")
    before = rows_of(first.job_key, pa.Table, database=project.database)

    @dg.asset(io_manager_key="bulk", metadata={frames.RESOURCE: "articles"})
    def same() -> pd.DataFrame:
        return rows_of(first.job_key, pd.DataFrame, database=project.database).assign(title=["One", "2"])

    result = project.materialize(same, manager=BulkIOManager(url=project.url, mode="upsert", match_on="slug"))
    assert result.success, error_of(result)
    after = rows_of(shown_by(result, "same")[frames.JOB], pa.Table, database=project.database)
    changed = [
        name for name in before.column_names if before.column(name).to_pylist() != after.column(name).to_pylist()
    ]
    assert changed == ["title"]
    assert rows_of(first.job_key, pa.Table, database=project.database).num_rows == 0, "they belong to the upsert now"


def test_a_person_terminates_the_run(project: Project) -> None:
    """The job is paused, and goes on when the step is executed again."""
    table = pa.Table.from_pylist(people(*NAMES))
    origin = Origin("found", "found in run 1", "run 1", lambda: True)
    with frame_types.spooled(table) as (file, _):
        sent = frame_imports.Sent(file, Options("users", format="arrow"), "found")
        job = frame_imports.submitted(project.engine, sent, origin)
    job = frame_imports.taken_up(project.engine, job, origin)
    with pytest.raises(KeyboardInterrupt), frame_imports.pausing(project.engine, job, origin):
        raise KeyboardInterrupt
    assert whole_imports.refreshed(project.engine, job).status is JobState.PAUSED
    done = spooled(project, table, Origin("found", "found in run 1", "run 2", lambda: False))
    assert (done.job_key, done.status) == (job.job_key, JobState.COMPLETED)
