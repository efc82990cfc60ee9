"""Jobs of distribution in Dagster: the asset's partitions, failed runs that say which and why, retries that free the
process, and what people are shown."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_aws.s3 import S3Resource
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import definitions
from bulk_pipelines.distribution.definitions import Distribution, asset, distribute_files, distribution, launchables
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.maintenance.definitions import maintenance, upkeep
from bulk_pipelines.orchestration.relay import relay
from bulk_pipelines.orchestration.resources import Database, process_pool, s3_resource, step_executor
from bulk_pipelines_tests.scenes.distribution import Given, Scene, many, wanted
from bulk_pipelines_tests.servers.faulty_proxy import Fault, FaultyProxy
from bulk_pipelines_tests.servers.processes import Place, free_port

OLD_ENOUGH = 20240202


def defs() -> dg.Definitions:
    launched = launchables()
    return dg.Definitions.merge(
        distribution(launched),
        dg.Definitions(sensors=[relay(launched, listen=0)], resources={"database": Database()}, executor=step_executor),
    )


@pytest.fixture(autouse=True)
def fresh_definitions() -> Iterator[None]:
    """Clear what the definitions keep, before and after the test: it is what the settings said when they were first
    asked."""
    for kept in (s3_resource, process_pool, definitions.equipped):
        kept.cache_clear()
    yield
    for kept in (s3_resource, process_pool, definitions.equipped):
        kept.cache_clear()


@pytest.fixture
def place(faulty_s3: FaultyProxy) -> Place:
    return faulty_s3.bucket()


@pytest.fixture
def scene(engine: Engine, place: Place) -> Scene:
    return Scene(engine, place)


@pytest.fixture
def instance(
    tmp_path: Path, database_url: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    s3 = place.access.s3
    for name, value in {
        "BULK_DATABASE_URL": database_url,
        "BULK_DISTRIBUTION_URL": f"{place.url}/exports",
        "BULK_DISTRIBUTION_BASE_DELAY": "0.1",
        "BULK_S3_ENDPOINT": s3.endpoint,
        "BULK_S3_ACCESS_KEY_ID": s3.access_key_id,
        "BULK_S3_SECRET_ACCESS_KEY": s3.secret_access_key,
    }.items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def submitted(scene: Scene, instance: dg.DagsterInstance, inputs: list[Given]) -> Job:
    job = scene.submit(inputs)
    instance.add_dynamic_partitions("distribution_jobs", [job.job_key])
    return job


def run(instance: dg.DagsterInstance, job: Job) -> dg.ExecuteInProcessResult:
    return (
        defs()
        .resolve_job_def("distribution")
        .execute_in_process(instance=instance, partition_key=job.job_key, raise_on_error=False)
    )


def materialized(instance: dg.DagsterInstance, job: Job) -> dict[str, Any] | None:
    """The metadata of the job's partition."""
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey("distributed_files"), asset_partitions=[job.job_key]), limit=1
    ).records
    if not found:
        return None
    assert found[0].asset_materialization is not None
    return {name: each.value for name, each in found[0].asset_materialization.metadata.items()}


def failure_of(result: dg.ExecuteInProcessResult) -> Any:
    """What the failed step says."""
    (event,) = [each for each in result.all_events if each.event_type_value == "STEP_FAILURE"]
    return event.step_failure_data.user_failure_data


def test_a_job_is_a_partition_with_its_figures(scene: Scene, instance: dg.DagsterInstance, place: Place) -> None:
    inputs = many(600)
    scene.have(inputs)
    scene.done(inputs[:200])
    job = submitted(scene, instance, inputs)
    result = run(instance, job)
    assert result.success
    steps = {each.step_key for each in result.all_events if each.event_type_value == "STEP_SUCCESS"}
    assert {"distributed_files.plan", "distributed_files.lane_1", "distributed_files.finish"} <= steps
    assert len([path for path in scene.files() if job.job_key in path]) == 400
    shown = materialized(instance, job)
    assert shown is not None
    with transaction(scene.pool) as connection:  # a busy S3 server may refuse a file once
        row = connection.execute(
            "SELECT sum(attempt_count - 1) FROM job_item WHERE job_id = %s", [job.job_id]
        ).fetchone()
    assert row is not None
    assert {name: shown[name] for name in ("inputs", "files", "files_generated", "files_reused", "retries")} == {
        "inputs": 600,
        "files": 600,
        "files_generated": 400,
        "files_reused": 200,
        "retries": row[0],
    }
    assert shown["reuse_rate"] == pytest.approx(1 / 3)
    assert shown["files_per_second"] == pytest.approx(600 / shown["seconds"], abs=0.06)
    assert shown["rows_written"] == 1_200
    assert shown["bytes_written"] == sum(len(content) for path, content in scene.files().items() if job.job_key in path)
    assert shown["state"] == "COMPLETED"
    assert len(shown["slowest_inputs"].records) == 10
    link = scene.path(job, inputs[-1]).replace("s3://", f"{place.access.s3.endpoint}/")
    assert "dead_letters" not in shown
    assert shown["first_files"].count("\n| IDX") == 100
    assert link not in shown["first_files"]  # behind the hundredth
    assert shown["all_files"] == f"bulk distribute status {job.job_key}"


def test_a_link_opens_the_file(scene: Scene, instance: dg.DagsterInstance, place: Place) -> None:
    scene.have([wanted("A B")])
    job = submitted(scene, instance, [wanted("A B")])
    result = run(instance, job)
    assert result.success
    shown = materialized(instance, job)
    assert shown is not None
    link = scene.path(job, wanted("A B")).replace("s3://", f"{place.access.s3.endpoint}/").replace(" ", "%20")
    assert f"(<{link}>)" in shown["first_files"]


def test_a_run_with_buried_inputs_fails_and_says_which_and_why(scene: Scene, instance: dg.DagsterInstance) -> None:
    inputs = [*many(3), wanted("NONE")]
    scene.have(inputs[:3])
    job = submitted(scene, instance, inputs)
    first = run(instance, job)
    assert not first.success
    failed = failure_of(first)
    assert "NONE_20240202_CLS: there is no data of NONE" in failed.description
    metadata = failed.metadata
    (buried,) = metadata["first_dead_letters"].value.records
    assert buried.data == {
        "item": "NONE_20240202_CLS",
        "why": "there is no data of NONE for 2024-02-02 as CLS",
        "kind of error": "permanent",
        "attempts": 1,
    }
    assert metadata["inputs_failed"].value == 1
    # Not again by itself: the same would be found.
    assert not [each for each in first.all_events if each.event_type_value == "STEP_UP_FOR_RETRY"]
    found = instance.get_run_by_id(first.run_id)
    assert found is not None
    assert found.tags["dagster/max_retries"] == "0"
    assert scene.answer(job)["status"] == "FAILED"
    assert materialized(instance, job) is None

    scene.have(inputs[3:])
    again = run(instance, job)
    assert again.success
    scene.check(job, inputs)
    assert materialized(instance, job) is not None


def test_waiting_retries_free_the_process(scene: Scene, instance: dg.DagsterInstance, faulty_s3: FaultyProxy) -> None:
    scene.have(many(4))
    job = submitted(scene, instance, many(4))
    faulty_s3.add(Fault("status", method="PUT", match="IDX00002", times=2, retry_after=2))
    result = run(instance, job)
    assert result.success
    assert [each for each in result.all_events if each.event_type_value == "STEP_UP_FOR_RETRY"]
    scene.check(job, many(4))
    shown = materialized(instance, job)
    assert shown is not None
    tries = {key: item.attempts for key, item in scene.items(job).items()}
    assert tries["IDX00002"] == 2
    assert shown["retries"] == sum(tries.values()) - 4


def test_two_runs_work_one_job(scene: Scene, instance: dg.DagsterInstance, faulty_s3: FaultyProxy) -> None:
    """Two runs at once do a share each, a third one finds the job done, and all end well."""
    inputs = many(400)
    scene.have(inputs)
    job = submitted(scene, instance, inputs)
    faulty_s3.add(Fault("delay", method="PUT", seconds=0.1))
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(lambda _: run(instance, job), range(2)))
    assert [each.success for each in results] == [True, True]
    with scene.pool.connect() as connection:
        owners = "SELECT DISTINCT split_part(lease_owner, ':', 1) FROM job_item"
        workers = {row[0] for row in connection.exec_driver_sql(owners)}
    assert workers == {each.run_id for each in results}
    assert run(instance, job).success
    scene.check(job, inputs)
    # The S3 server refuses a write now and then while another one makes the same folder; that is tried again.
    assert sum(item.attempts for item in scene.items(job).values()) < 410


def test_the_relay_launches_a_submitted_job(scene: Scene, instance: dg.DagsterInstance) -> None:
    job = scene.submit(many(2))
    loaded = defs()
    context = dg.build_sensor_context(instance=instance, definitions=loaded, resources={"database": Database()})
    result = loaded.resolve_sensor_def("relay")(context)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or []
    assert (request.job_name, request.partition_key) == ("distribution", job.job_key)
    assert request.run_config["execution"]["config"]["in_process"] is True
    (partitions,) = result.dynamic_partitions_requests or []
    assert partitions.partitions_def_name == "distribution_jobs"


def test_the_launchpad_s_example_works(scene: Scene, instance: dg.DagsterInstance) -> None:
    result = distribute_files.execute_in_process(instance=instance, resources={"database": Database()})
    assert result.success
    (output,) = [each for each in result.all_events if each.event_type_value == "STEP_OUTPUT"]
    job = scene.job(str(output.step_output_data.metadata["job"].value))
    assert (job.status, job.total_items, job.origin) == ("SUBMITTED", 5, "ui")
    instance.add_dynamic_partitions("distribution_jobs", [job.job_key])
    worked = run(instance, job)
    assert worked.success
    assert scene.answer(job)["filesGenerated"] == 5


def test_the_s3_resource_says_which_server(
    scene: Scene, instance: dg.DagsterInstance, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else than the settings may configure it, as with another deployment's endpoint and keys."""
    s3 = place.access.s3
    for name in ("BULK_S3_ENDPOINT", "BULK_S3_ACCESS_KEY_ID", "BULK_S3_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}" if name.endswith("ENDPOINT") else "wrong")
    s3_resource.cache_clear()
    resource = S3Resource(
        endpoint_url=s3.endpoint, aws_access_key_id=s3.access_key_id, aws_secret_access_key=s3.secret_access_key
    )
    scene.have([wanted("ABC")])
    job = submitted(scene, instance, [wanted("ABC")])
    resources = {"database": Database(), "s3": resource, "distribution": Distribution(s3=resource)}
    given = dg.Definitions(assets=[asset(1)], jobs=[launchables()[0].job], resources=resources)
    result = given.resolve_job_def("distribution").execute_in_process(instance=instance, partition_key=job.job_key)
    assert result.success
    scene.check(job, [wanted("ABC")])


def test_the_finalizer_s_interval_is_a_setting(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_FINALIZE_MINUTES", "7")
    given = dg.Definitions.merge(maintenance(upkeep(launchables())), dg.Definitions(resources={"database": Database()}))
    assert given.resolve_schedule_def("finalize_schedule").cron_schedule == "*/7 * * * *"


def test_secrets_are_named_not_shown(scene: Scene, instance: dg.DagsterInstance, place: Place) -> None:
    resource = s3_resource()
    assert isinstance(resource.aws_secret_access_key, dg.EnvVar) or place.access.s3.secret_access_key not in str(
        resource
    )
    config = defs().resolve_job_def("distribution").resource_defs["s3"].config_schema
    assert place.access.s3.secret_access_key not in str(config)
