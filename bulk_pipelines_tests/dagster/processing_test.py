"""Jobs of processing in Dagster: a partition with its figures and checks, a failed run for failed rows, a redrive by
executing it again."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.orchestration.relay import relay
from bulk_pipelines.orchestration.resources import Database, step_executor
from bulk_pipelines.processing.definitions import launchables, process_rows, processing
from bulk_pipelines_tests.scenes.processing import Scene, items
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said


def defs() -> dg.Definitions:
    launched = launchables()
    return dg.Definitions.merge(
        processing(launched),
        dg.Definitions(sensors=[relay(launched, listen=0)], resources={"database": Database()}, executor=step_executor),
    )


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(engine, tmp_path, monkeypatch)


def run(instance: dg.DagsterInstance, job: Job) -> dg.ExecuteInProcessResult:
    instance.add_dynamic_partitions("process_lookup_jobs", [job.job_key])
    return (
        defs()
        .resolve_job_def("process_lookup")
        .execute_in_process(instance=instance, partition_key=job.job_key, raise_on_error=False)
    )


def shown(instance: dg.DagsterInstance, job: Job) -> dict[str, Any]:
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey("lookups"), asset_partitions=[job.job_key]), limit=1
    ).records
    assert found[0].asset_materialization is not None
    return {name: each.value for name, each in found[0].asset_materialization.metadata.items()}


def test_a_job_is_a_partition_with_its_figures_and_checks(scene: Scene, instance: dg.DagsterInstance) -> None:
    def answer(call: Call) -> Any:
        return {"items": []} if call.params["q"].startswith("none") else items(("x", 0.9, "1"))

    with ProviderServer(answer) as server:
        scene.shop(server.url, recipe="not_found_attempts = 1\nmatched_share = 0.9")
        job = scene.submitted(source=scene.products("lamp", "lamp", "none", "chair"))
        result = run(instance, job)
    assert result.success
    found = shown(instance, job)
    assert (found["rows"], found["share_matched"], found["share_no_match"]) == (4, 0.75, 0.25)
    assert found["rows_by_provider"] == {"shop": 4}
    assert found["kept_answers_share"] == 0.25
    assert found["requests"] == {"shop": {"200": len(server.calls)}}
    assert (found["requests_made"], found["throttled_seconds"]) == (len(server.calls), 0)
    assert found["scores"].startswith("![rows by score](data:image/svg+xml;base64,")
    assert len(found["first_rows"].records) == 4
    checks = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert {name: each.passed for name, each in checks.items()} == {"matched_share": False, "failed_share": True}


def test_rows_that_failed_fail_the_run_and_another_run_tries_them_again(
    scene: Scene, instance: dg.DagsterInstance
) -> None:
    broken = [True]

    def answer(_: Call) -> Any:
        return Said({}, 400) if broken[0] else items(("x", 0.9, "1"))

    with ProviderServer(answer) as server:
        scene.shop(server.url)
        job = scene.submitted(source=scene.products("lamp"))
        result = run(instance, job)
        (failed,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
        given = failed.step_failure_data.user_failure_data
        assert given is not None
        reason = str(given.description)
        assert "1 of 1 row failed" in reason
        assert "the first one is 000000001 (permanent): shop answered 400" in reason
        broken[0] = False
        assert run(instance, job).success
    assert [row["Outcome"] for row in scene.grid(job)] == ["matched"]


def test_the_launchpad_submits_and_the_relay_launches(scene: Scene, instance: dg.DagsterInstance) -> None:
    scene.shop("http://127.0.0.1:9/")
    config = {"recipe": "products", "source": scene.products("lamp"), "idempotency_key": "k"}
    for _ in range(2):
        done = process_rows.execute_in_process(
            instance=instance,
            resources={"database": Database()},
            run_config={"ops": {"submit_processing": {"config": config}}},
        )
        assert done.success
    launched = launchables()
    context = dg.build_sensor_context(instance=instance, definitions=defs(), resources={"database": Database()})
    result = relay(launched, listen=0)(context)
    assert isinstance(result, dg.SensorResult)
    assert [each.job_name for each in result.run_requests or []] == ["process_lookup"]
