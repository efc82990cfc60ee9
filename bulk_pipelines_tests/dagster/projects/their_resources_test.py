"""The parts in a project that has resources of its own."""

import dagster as dg
import pytest
from dagster_aws.s3 import S3Resource

from bulk_pipelines.components import parts
from bulk_pipelines.distribution.definitions import Distribution
from bulk_pipelines.orchestration.resources import Database

THEIRS = S3Resource(
    endpoint_url="http://127.0.0.1:9",
    region_name="eu-north-1",
    aws_access_key_id=dg.EnvVar("THEIR_KEY"),
    aws_secret_access_key=dg.EnvVar("THEIR_SECRET"),
)


@dg.asset
def listing(s3: S3Resource) -> str:
    return str(s3.endpoint_url)


@dg.asset
def seen(distribution: Distribution) -> dict[str, str]:
    found = distribution.access().s3
    return {"endpoint": found.endpoint, "region": found.region, "key": found.access_key_id}


@pytest.mark.parametrize("given", [None, THEIRS], ids=["that of the settings", "theirs"])
def test_a_project_with_an_s3_resource_of_its_own_has_the_distribution_beside_it(given: S3Resource | None) -> None:
    project = dg.Definitions(assets=[listing], resources={"s3": THEIRS})
    merged = dg.Definitions.merge(project, parts.distribution(s3=given), parts.upkeep())
    assert merged.resolve_job_def("distribute_files").name == "distribute_files"


def test_the_distribution_writes_by_their_s3_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", "their-key")
    monkeypatch.setenv("THEIR_SECRET", "their-secret")
    resources = parts.distribution(s3=THEIRS).resources
    assert resources is not None
    done = dg.materialize([seen], resources={"distribution": resources["distribution"]})
    wanted = {"endpoint": "http://127.0.0.1:9", "region": "eu-north-1", "key": "their-key"}
    assert done.output_for_node("seen") == wanted


@dg.asset
def where(database: Database) -> str:
    with database.engine.connect() as connection:
        return str(connection.exec_driver_sql("SELECT current_database()").scalar())


def test_the_parts_use_a_database_of_the_project(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE_URL", database_url)
    warehouse = Database(url=dg.EnvVar("WAREHOUSE_URL"))
    project = dg.Definitions(assets=[where], resources={"database": warehouse})
    merged = dg.Definitions.merge(
        project,
        parts.table("users", database=warehouse),
        parts.distribution(database=warehouse),
        parts.upkeep(database=warehouse),
    )
    assert merged.resources is not None
    assert merged.resources["database"] is warehouse
    done = merged.resolve_implicit_global_asset_job_def().execute_in_process(asset_selection=[dg.AssetKey("where")])
    assert done.output_for_node("where") in database_url
