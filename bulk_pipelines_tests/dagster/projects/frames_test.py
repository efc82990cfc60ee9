"""Frames of somebody else's assets: what an import has loaded, and what an export has written, as the types that assets
ask for."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from bulk_pipelines.components.frames import file_of, rows_of
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import BulkError, Conflict, InvalidInput
from bulk_pipelines.exports import definitions as exports
from bulk_pipelines.exports import submission as exporting
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import definitions as imports
from bulk_pipelines.resources import find
from bulk_pipelines_tests.scenes import shop, whole_imports
from bulk_pipelines_tests.scenes.frames import NAMES, Project, error_of, people, project

__all__ = ["project"]


def test_the_rows_of_an_import_as_each_type(project: Project) -> None:
    project.imported(people("Zed"))
    job = project.imported(people(*NAMES))
    table = rows_of(job.job_key, pa.Table, database=project.database)
    assert table.column("name").to_pylist() == NAMES, "these rows alone, in the order of the file"
    assert table.schema.field("created_at").type == pa.timestamp("us", tz="UTC")
    assert not {"import_job", "import_line"} & set(table.column_names)
    assert rows_of(job.job_key, pa.RecordBatchReader, database=project.database).read_all() == table
    frame = rows_of(job.job_key, pd.DataFrame, database=project.database)
    assert frame["name"].tolist() == NAMES
    assert isinstance(frame["created_at"].dtype, pd.DatetimeTZDtype)
    with pytest.raises(InvalidInput, match=r"builtins.dict is no type of a frame"):
        rows_of(job.job_key, dict, database=project.database)


def test_a_reader_that_is_forgotten_gives_its_connection_back(project: Project) -> None:
    job = project.imported(people(*NAMES))
    for _ in range(20):
        reader = rows_of(job.job_key, pa.RecordBatchReader, database=project.database)
        assert reader.read_next_batch().num_rows == len(NAMES)
        del reader


def test_what_is_no_whole_import_is_no_frame(project: Project) -> None:
    waiting = whole_imports.submitted(project.engine, "users", [Path("/nowhere/users.csv")])
    with pytest.raises(Conflict, match="SUBMITTED: only what has completed is read"):
        rows_of(waiting.job_key, pa.Table, database=project.database)
    export = project.exported(resource="users")
    with pytest.raises(InvalidInput, match="is no import"):
        rows_of(export.job_key, pa.Table, database=project.database)
    with pytest.raises(InvalidInput, match="is no export"):
        file_of(waiting.job_key, pa.Table, database=project.database)
    with pytest.raises(BulkError, match="J19990101_000001"):
        rows_of("J19990101_000001", pa.Table, database=project.database)
    declared = shop.opened(project.engine).declared("shop.customers")
    job = project.imported([{"id": 50, "email": "a@b.cd", "name": "A"}], declared.name, declaration=declared)
    assert job.status is JobState.COMPLETED, job.last_error
    with pytest.raises(Conflict, match="do not say which import they come from.*adopt --provenance"):
        rows_of(job.job_key, pa.Table, database=project.database)


@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"compression": "zstd"}, {}])
@pytest.mark.parametrize("format_", ["csv", "parquet", "arrow"])
def test_the_file_of_an_export(project: Project, format_: str, options: dict[str, str]) -> None:
    if format_ == "arrow" and options.get("compression") == "gzip":
        options = {}
    (author,) = project.imported_author()
    articles = [
        {
            "slug": "one",
            "title": "One",
            "body": NAMES[1],
            "author_id": author,
            "status": "draft",
            "tags": '["a","ö\\""]',
        },
        {"slug": "two", "title": "Two", "body": "b", "author_id": author, "status": "draft", "tags": "[]"},
    ]
    made = project.imported(articles, "articles")
    assert made.status is JobState.COMPLETED, made.last_error
    job = project.exported(resource="articles", format=format_, order="slug", **options)
    found = file_of(job.job_key, pa.Table, database=project.database)
    assert found == rows_of(made.job_key, pa.Table, database=project.database)
    assert found.column("tags").to_pylist() == [["a", 'ö"'], []]
    assert found.column("published_at").to_pylist() == [None, None]
    users = project.exported(resource="users", format=format_, **options)
    frame = file_of(users.job_key, pd.DataFrame, database=project.database)
    assert (frame["active"].tolist(), frame["created_at"].tolist()) == (
        [False],
        [pd.Timestamp("2026-01-10 10:00:00.5", tz="UTC")],
    )
    empty = project.exported(resource="comments", format=format_, **options)
    assert file_of(empty.job_key, pa.Table, database=project.database).num_rows == 0


def test_a_file_that_is_not_that_of_the_export_any_more(project: Project) -> None:
    project.imported(people(*NAMES))
    to = project.folder / "users.csv"
    job = project.exported(resource="users", to=str(to))
    assert file_of(job.job_key, pa.Table, database=project.database).num_rows == len(NAMES)
    to.write_bytes(to.read_bytes().replace(b"Ann", b"Ant"))
    with pytest.raises(Conflict, match="changed since"):
        file_of(job.job_key, pa.Table, database=project.database)
    sheets = project.exported(resource="users", format="xlsx")
    with pytest.raises(Conflict, match="a frame is read from parquet, arrow, csv"):
        file_of(sheets.job_key, pa.Table, database=project.database)


IMPORTS = dg.DynamicPartitionsDefinition(name="import_users_jobs")
USERS = dg.AssetSpec("users", partitions_def=IMPORTS)


def test_a_downstream_asset_gets_the_rows_of_its_partition(project: Project) -> None:
    project.imported(people("Zed"))
    job = project.imported(people(*NAMES))
    project.instance.add_dynamic_partitions("import_users_jobs", [job.job_key])
    got: dict[str, Any] = {}

    @dg.asset(partitions_def=IMPORTS, ins={"users": dg.AssetIn(input_manager_key="bulk")})
    def with_pandas(users: pd.DataFrame) -> None:
        got["pandas"] = users["name"].tolist()

    @dg.asset(partitions_def=IMPORTS, ins={"users": dg.AssetIn(input_manager_key="bulk")})
    def with_reader(users: pa.RecordBatchReader) -> None:
        got["reader"] = users.read_all().column("name").to_pylist()

    @dg.asset(partitions_def=IMPORTS, ins={"users": dg.AssetIn(input_manager_key="bulk")})
    def untyped(users):  # type: ignore[no-untyped-def]
        got["untyped"] = users.column("name").to_pylist()

    last = dg.AssetIn(input_manager_key="bulk", partition_mapping=dg.LastPartitionMapping())

    @dg.asset(ins={"users": last})
    def of_the_last(users: pa.Table) -> None:
        got["last"] = users.num_rows

    @dg.asset(ins={"users": dg.AssetIn(input_manager_key="bulk")})
    def of_all(users: pa.Table) -> None:
        got["all"] = users

    assert project.materialize(USERS, with_pandas, with_reader, untyped, partition_key=job.job_key).success
    assert project.materialize(USERS, of_the_last).success
    assert got == {"pandas": NAMES, "reader": NAMES, "untyped": NAMES, "last": 3}
    project.instance.add_dynamic_partitions("import_users_jobs", ["J19990101_000001"])
    assert "2 partitions of users are asked for" in error_of(project.materialize(USERS, of_all))
    assert "J19990101_000001" in error_of(project.materialize(USERS, of_the_last))


def test_the_assets_of_the_parts_are_read(project: Project) -> None:
    """The import and the export are materialized by the parts, as the relay has them launched."""
    got: list[Any] = []

    @dg.asset(partitions_def=IMPORTS, ins={"users": dg.AssetIn(input_manager_key="bulk")})
    def imported(users: pd.DataFrame) -> None:
        got.append(users["name"].tolist())

    @dg.asset(
        partitions_def=dg.DynamicPartitionsDefinition(name="export_users_jobs"),
        ins={"users_export": dg.AssetIn(input_manager_key="bulk")},
    )
    def exported(users_export: pa.Table) -> None:
        got.append(users_export.column_names)

    path = project.folder / "users.csv"
    pd.DataFrame(people(*NAMES)).to_csv(path, index=False)
    job = whole_imports.submitted(project.engine, "users", [path])
    project.instance.add_dynamic_partitions("import_users_jobs", [job.job_key])
    result = project.materialize(imports.asset(find("users"), 1), imported, partition_key=job.job_key)
    assert result.success, error_of(result)
    with transaction(project.engine) as connection:
        wanted = ExportRequest.parse({"resource": "users", "fields": "email,name", "format": "parquet"})
        job = exporting.submit(connection, wanted, Sender("me", "cli")).job
    project.instance.add_dynamic_partitions("export_users_jobs", [job.job_key])
    result = project.materialize(exports.asset(find("users")), exported, partition_key=job.job_key)
    assert result.success, error_of(result)
    assert got == [NAMES, ["email", "name"]]
