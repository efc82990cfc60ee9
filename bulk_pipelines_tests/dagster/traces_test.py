"""Traces, received by a real OTLP receiver: request → job → lane → slice → call of a provider, under the ids that the
requests themselves bore."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.telemetry import spans
from bulk_pipelines_tests.dagster.processing_test import run
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_imports import done, sent, users
from bulk_pipelines_tests.scenes.processing import Scene, items
from bulk_pipelines_tests.servers.provider_server import ProviderServer

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


class Collector(ProviderServer):
    """An OTLP receiver: it decodes what it is sent."""

    def __init__(self) -> None:
        super().__init__(lambda call: {})

    @property
    def spans(self) -> list[Any]:
        found = []
        for call in self.calls:
            assert call.path == "/v1/traces"
            decoded = ExportTraceServiceRequest.FromString(call.body)
            found += [
                span for resource in decoded.resource_spans for scope in resource.scope_spans for span in scope.spans
            ]
        return found

    def named(self, name: str) -> list[Any]:
        return [each for each in self.spans if each.name == name]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        monkeypatch.setenv("BULK_OTLP_ENDPOINT", server.url)
        spans.provider.cache_clear()
        yield server
        made = spans.provider()
        assert made is not None
        made.shutdown()
    spans.provider.cache_clear()


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(engine, tmp_path, monkeypatch)


@pytest.fixture
def api(engine: Engine, tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    home = tmp_path / "home"
    monkeypatch.setenv("BULK_HOME", str(home))
    with serving_here(engine, home) as serving:
        yield serving


def attribute(span: Any, name: str) -> Any:
    found = {each.key: each.value for each in span.attributes}
    value = found[f"bulk.{name}"]
    return getattr(value, value.WhichOneof("value"))


def test_from_the_job_to_the_call_of_a_provider(
    scene: Scene, instance: dg.DagsterInstance, collector: Collector
) -> None:
    with ProviderServer(lambda call: items((call.params["q"], 0.9, "1"))) as server:
        scene.shop(server.url, "at_once = 2", "at_once = 2")
        job = scene.submitted(source=scene.products("lamp", "chair", "table"))
        with transaction(scene.pool) as connection:
            connection.execute("UPDATE job SET trace_parent = %s", [f"00-{TRACE}-{CALLER}-01"])
        assert run(instance, job).success
        headers = [call.headers["traceparent"].split("-") for call in server.calls]
    spans.flush()
    (of_job,) = collector.named("job")
    assert {each.trace_id.hex() for each in collector.spans} == {TRACE}
    assert of_job.parent_span_id.hex() == CALLER
    lanes = [each for each in collector.named("lane") if each.parent_span_id == of_job.span_id]
    slices = [each for each in collector.named("slice") if each.parent_span_id in {lane.span_id for lane in lanes}]
    worked = [each for each in collector.named("item") if each.parent_span_id in {part.span_id for part in slices}]
    asked = [each for each in collector.named("ask shop") if each.parent_span_id in {item.span_id for item in worked}]
    assert len(worked) == len(asked) == len(headers) == 3
    assert {each.span_id.hex() for each in worked} == {each[2] for each in headers}, "the provider knows these spans"
    assert sum(attribute(each, "items") for each in slices) == 3
    assert attribute(of_job, "job_id") == job.job_key
    assert [each for each in collector.named("settle") if each.parent_span_id in {lane.span_id for lane in lanes}]
    begun, ended = (moment_of(scene.job(job.job_key), name) for name in ("created_at", "finished_at"))
    assert (of_job.start_time_unix_nano // 1000, of_job.end_time_unix_nano // 1000) == (begun, ended)


def moment_of(job: Job, name: str) -> int:
    seconds: float = getattr(job, name).timestamp()
    return round(seconds * 1_000_000)


def test_a_request_is_the_parent_of_its_job(api: Api, collector: Collector) -> None:
    answer = sent(api.client("ada"), users(1, 2), {"traceparent": f"00-{TRACE}-{CALLER}-01"})
    done(api.engine, answer.json()["job_id"])
    spans.flush()
    own = answer.headers["traceparent"].split("-")[2]
    (of_request,) = collector.named("POST")
    assert (of_request.span_id.hex(), of_request.parent_span_id.hex()) == (own, CALLER)
    assert attribute(of_request, "route") == "/v1/imports"
    (of_job,) = collector.named("job")
    assert of_job.parent_span_id == of_request.span_id
    (load,) = collector.named("load")
    (part,) = collector.named("slice")
    assert load.parent_span_id == part.span_id
    assert part.parent_span_id == of_job.span_id


def test_who_asks_not_to_be_traced_is_not(api: Api, collector: Collector) -> None:
    answer = sent(api.client("ada"), users(1), {"traceparent": f"00-{TRACE}-{CALLER}-00"})
    done(api.engine, answer.json()["job_id"])
    assert httpx.get(f"{api.url}/health").status_code == 200
    spans.flush()
    assert {each.name for each in collector.spans} == {"GET"}


WORK = """
import sys
{before}
from bulk_pipelines.telemetry import spans
from bulk_pipelines import definitions
with spans.span("work"):
    pass
spans.flush()
print(sorted({{"opentelemetry.sdk", "opentelemetry.exporter"}} & sys.modules.keys()))
"""


def said(before: str = "", **settings: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", WORK.format(before=before)],
        env=os.environ | settings,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout + found.stderr


def test_nothing_is_imported_that_nobody_wants() -> None:
    assert said().startswith("[]\n")


def test_without_the_extra_it_says_so_and_works() -> None:
    absent = "sys.modules['opentelemetry.sdk'] = sys.modules['opentelemetry.exporter'] = None"
    told = said(absent, BULK_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert "bulk-pipelines[otel]" in told


def test_a_receiver_that_is_away_stops_nobody() -> None:
    assert "opentelemetry.sdk" in said(BULK_OTLP_ENDPOINT="http://127.0.0.1:1")
