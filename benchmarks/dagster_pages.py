"""Dagster's pages and ticks with a long history: `make bench-dagster-pages`.

An installation makes one job of each kind. Then its storage is filled with 20,000 runs, 5,000 partitions of each asset
and two days of ticks, and what the pages of the UI send is sent to its web server, before and after. A page costs what
its queries cost one after the other, which is more than a browser waits, because it sends them side by side. A tick is
evaluated in the code server, as the daemon has it evaluated; the relay's finds a job that has to be launched again. The
slowest of all looks at any page, and of all ticks, is compared with the two seconds that none should take.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import httpx

from benchmarks import dagster_history, ui_queries
from benchmarks.measure import report, show
from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import kind, sample
from bulk_pipelines.distribution import submission as distributing
from bulk_pipelines.distribution.request import DistributionRequest
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.exports import submission as exporting
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

ROUNDS = 5
PATIENCE = 300.0
MOST_SECONDS = 2.0
SAMPLES = CHECKOUT / "docs" / "samples"
ASSET = "users"
ASSETS = 7
TICKS = {"drop-tick", "relay-tick"}

Asked = tuple[str, Mapping[str, Any]]
"""The name of a query, and its variables."""


def where(field: str, name: str) -> dict[str, str]:
    """Return a selector that names one of the definitions by this field."""
    return {"repositoryName": "__repository__", "repositoryLocationName": "bulk_pipelines", field: name}


def pages(key: str, run_id: str) -> dict[str, list[Asked]]:
    """Return what each page sends; `key` is a partition of the asset, and `run_id` its run."""
    path = {"path": [ASSET]}
    asset, assets = {"assetKey": path}, {"assetKeys": [path]}
    relay = where("sensorName", "relay")
    hours = time.time() - 6 * 3_600
    over = ["SUCCESS", "FAILURE", "CANCELED"]
    return {
        "runs-page": [
            ("RunsFeedRootQuery", {"limit": 30, "filter": {}, "view": "ROOTS"}),
            (
                "RunFeedTabsCountQuery",
                {
                    "queuedFilter": {"statuses": ["QUEUED"]},
                    "inProgressFilter": {"statuses": ["STARTED", "STARTING", "CANCELING"]},
                    "view": "ROOTS",
                },
            ),
            ("RunTagKeysQuery", {}),
        ],
        "runs-page-of-a-job": [
            (
                "RunsFeedRootQuery",
                {"limit": 30, "filter": {"tags": [{"key": "dagster/partition", "value": key}]}, "view": "ROOTS"},
            )
        ],
        "run-page": [("RunRootQuery", {"runId": run_id}), ("RunStatsQuery", {"runId": run_id})],
        "timeline": [
            ("OngoingRunTimelineQuery", {"inProgressFilter": {"statuses": ["STARTED", "QUEUED"]}, "limit": 500}),
            ("CompletedRunTimelineQuery", {"completedFilter": {"statuses": over, "updatedAfter": hours}, "limit": 500}),
        ],
        "asset-page": [
            ("AssetForNavigationQuery", {"key": path}),
            ("AssetViewDefinitionQuery", asset),
            ("AssetGraphLiveQuery", assets),
            ("AssetStaleStatusQuery", assets),
            ("AssetOverviewMetadataEventsQuery", asset),
            ("PartitionHealthQuery", asset),
            (
                "RecentAssetEventsQuery",
                asset | {"limit": 100, "eventTypeSelectors": ["MATERIALIZATION", "FAILED_TO_MATERIALIZE"]},
            ),
            ("AssetChecksQuery", asset),
        ],
        "partition-of-an-asset": [("AssetPartitionDetailQuery", asset | {"partitionKey": key})],
        "assets-page": [("AssetCatalogTableQuery", {"limit": 500}), ("AssetHealthQuery", all_assets())],
        "sensor-page": [
            ("SensorRootQuery", {"sensorSelector": relay}),
            ("TickHistoryQuery", {"instigationSelector": where("name", "relay"), "limit": 25}),
        ],
    }


def all_assets() -> dict[str, Any]:
    names = ["users", "articles", "comments", "users_export", "articles_export", "comments_export", "distributed_files"]
    return {"assetKeys": [{"path": [name]} for name in names]}


def sent(place: Installation, asked: Asked) -> tuple[float, dict[str, Any]]:
    """Send one query; return its seconds and its answer."""
    name, variables = asked
    query = {"operationName": name, "query": ui_queries.text_of(name), "variables": variables}
    begun = time.perf_counter()
    answer = httpx.post(f"http://127.0.0.1:{place.port}/graphql", json=query, timeout=PATIENCE).json()
    seconds = time.perf_counter() - begun
    assert "errors" not in answer, (name, answer["errors"])
    assert "PythonError" not in str(answer["data"]), (name, answer["data"])
    return seconds, answer["data"]


def page(place: Installation, queries: Sequence[Asked]) -> Callable[[], float]:
    def measured() -> float:
        return sum(sent(place, asked)[0] for asked in queries)

    return measured


def sensor_tick(place: Installation, name: str, prepare: Callable[[], object] = lambda: None) -> Callable[[], float]:
    def measured() -> float:
        prepare()
        asked = ("SensorDryRunMutation", {"selectorData": where("sensorName", name), "cursor": None})
        seconds, answer = sent(place, asked)
        result = answer["sensorDryRun"]["evaluationResult"]
        assert result["error"] is None, result
        if name == "relay":
            assert len(result["runRequests"]) == 1, result
        return seconds

    return measured


def submitted(place: Installation) -> str:
    """Submit a small import, which the relay then has to launch."""
    engine = pool.connect(place.server.url())
    try:
        request = Options(ASSET, mode="upsert").request((RequestedFile.of(str(SAMPLES / "users.csv")),))
        with transaction(engine) as connection:
            return submission.submit(connection, request, Sender("bench", "api")).job.job_key
    finally:
        engine.dispose()


def is_over(place: Installation, key: str) -> bool:
    return place.rows("SELECT finished_at IS NOT NULL FROM job WHERE job_key = %s", key) == [(True,)]


def to_be_launched_again(place: Installation) -> None:
    """Leave one job that wants a run, and had one before: so the relay asks Dagster for its earlier runs."""
    with pool.single(place.server.url()) as connection:
        connection.execute("DELETE FROM job WHERE status = 'SUBMITTED'")
        key = submitted(place)
        connection.execute("UPDATE job SET dispatch_count = 1 WHERE job_key = %s", [key])


def launched(place: Installation) -> Callable[[], float]:
    """Measure how long the daemon takes from the relay's offer to the run in the queue."""

    def measured() -> float:
        key = submitted(place)
        query = (
            "SELECT extract(epoch FROM run.create_timestamp AT TIME ZONE 'UTC' - job.first_offered_at)::float8"
            " FROM job JOIN dagster.run_tags AS tag ON tag.key = 'dagster/partition' AND tag.value = job.job_key"
            " JOIN dagster.runs AS run USING (run_id) WHERE job_key = %s"
        )
        until(lambda: bool(place.rows(query, key)), "the job has a run", PATIENCE)
        until(partial(is_over, place, key), "the job is over", PATIENCE)
        return float(place.rows(query, key)[0][0])

    return measured


def turn(place: Installation, which: str) -> None:
    """Start or stop the relay."""
    selector = {"sensorSelector": where("sensorName", "relay")}
    if which == "on":
        sent(place, ("StartSensor", selector))
        return
    sensor = sent(place, ("SensorRootQuery", selector))[1]["sensorOrError"]
    sent(place, ("StopRunningSensor", {"id": sensor["sensorState"]["id"]}))
    # The tick that is under way goes on, and would take what the next one is to find.
    ticking = "SELECT count(*) FROM dagster.job_ticks WHERE status = 'STARTED' AND tick_body LIKE '%%\"relay\"%%'"
    until(lambda: place.rows(ticking) == [(0,)], "the relay stands still", PATIENCE)


def everything(place: Installation) -> dict[str, list[float]]:
    """Measure all pages and ticks, and return the samples of each."""
    pattern = (
        "SELECT value, run_id FROM dagster.run_tags JOIN dagster.runs USING (run_id)"
        " WHERE key = 'dagster/partition' AND pipeline_name = 'import_users' ORDER BY runs.id LIMIT 1"
    )
    ((key, run_id),) = place.rows(pattern)
    found = {name: [page(place, queries)() for _ in range(ROUNDS)] for name, queries in pages(key, run_id).items()}
    found["launch"] = [launched(place)() for _ in range(ROUNDS)]
    found["drop-tick"] = [sensor_tick(place, "folder_drops")() for _ in range(ROUNDS)]
    turn(place, "off")
    relayed = sensor_tick(place, "relay", lambda: to_be_launched_again(place))
    found["relay-tick"] = [relayed() for _ in range(ROUNDS)]
    with pool.single(place.server.url()) as connection:
        connection.execute("DELETE FROM job WHERE status = 'SUBMITTED'")
    turn(place, "on")
    return found


def one_job_of_each(place: Installation) -> None:
    """Make the runs that are copied: the relay launches one for each asset."""
    engine = pool.connect(place.server.url())
    sender = Sender("bench", "api")
    try:
        with transaction(engine) as connection:
            for resource in ("users", "articles", "comments"):
                exporting.submit(connection, ExportRequest.parse({"resource": resource}), sender)
            sample.fill(connection, sample.Sample(indexes=2, days=1))
        inputs = sample.Sample(indexes=2, days=1).inputs()
        distributing.submit(engine, kind.kind_of(settings.current()), DistributionRequest.parse(inputs), sender)
        # Each refers to the one before.
        for file in ("users.csv", "articles.ndjson", "comments.json"):
            resource = file.partition(".")[0]
            with transaction(engine) as connection:
                request = Options(resource).request((RequestedFile.of(str(SAMPLES / file)),))
                key = submission.submit(connection, request, sender).job.job_key
            until(partial(is_over, place, key), f"{resource} is imported", PATIENCE)
    finally:
        engine.dispose()
    query = "SELECT count(DISTINCT pipeline_name) FROM dagster.runs WHERE status = 'SUCCESS'"
    until(lambda: place.rows(query)[0][0] >= ASSETS, "every asset has a run that ended well", PATIENCE)


def slowest(place: Installation) -> None:
    """Say which queries of the pages take longest."""
    pattern = "SELECT value, run_id FROM dagster.run_tags WHERE key = 'dagster/partition' LIMIT 1"
    ((key, run_id),) = place.rows(pattern)
    for name, queries in pages(key, run_id).items():
        parts = sorted(((sent(place, asked)[0], asked[0]) for asked in queries), reverse=True)
        print(f"{name}: " + ", ".join(f"{query} {seconds:.2f} s" for seconds, query in parts[:4]), file=sys.stderr)


def main() -> None:
    with installation.running() as place:
        one_job_of_each(place)
        before = everything(place)
        begun = time.monotonic()
        dagster_history.fill(place.server.url())
        counts = "SELECT (SELECT count(*) FROM dagster.runs), (SELECT count(*) FROM dagster.event_logs)"
        runs, events = place.rows(counts)[0]
        took = time.monotonic() - begun
        print(f"filled in {took:.0f} s: {runs:,} runs with {events:,} events", file=sys.stderr)
        after = everything(place)
        slowest(place)
    for name, samples in after.items():
        show(name, samples, "s")
    for name, samples in after.items():
        report(f"dagster {name}", median(samples), median(before[name]), "s")
    for what, names in (("page", set(after) - {"launch", *TICKS}), ("tick", TICKS)):
        report(f"dagster-slowest-{what}", max(max(after[name]) for name in names), MOST_SECONDS, "s")


if __name__ == "__main__":
    main()
