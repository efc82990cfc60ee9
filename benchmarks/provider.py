"""How much of what a provider allows is used, by one worker and by eight. The provider is a server of the benchmark's
own, which counts by its own clock and refuses what is too much.

The eight workers are processes; all ask for rows of their own, so nothing is answered from the cache.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import measure
from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.request import ProcessingRequest, kind_name
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Window

PER_SECOND, AT_ONCE = 20, 4
SECONDS = 35.0
WARM, LAST = 8.0, 2.0
"""Seconds that are not measured: at the beginning not all processes are there yet, at the end not all any more."""

RECIPES = """
[provider.bench]
address = "{address}"
private = true
per_second = {per_second}
at_once = {at_once}

[recipe.bench]
type = "lookup"
at_once = {at_once}
variants = [{{ name = "title", query = "{{title}}" }}]

[[recipe.bench.asks]]
provider = "bench"
path = "search"
params = {{ q = "{{query}}" }}
candidates = "$.items[*]"
id = "$.id"
"""


def answer(call: Call) -> object:
    return {"items": [{"id": call.params["q"]}]}


def work(job_key: str) -> None:
    engine = pool.connect(settings.current().database_url, size=8)
    with transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    with Worker(engine, KINDS, job) as worker:
        drain.drain(worker, seconds=SECONDS)


def used(url: str, folder: Path, workers: int) -> tuple[float, int]:
    """Return the requests a second over as many whole windows as there were, and how many requests were refused."""
    with ProviderServer(answer, Window(PER_SECOND, 1.0), at_once=AT_ONCE, seconds=0.01) as server:
        (folder / "bench.toml").write_text(RECIPES.format(address=server.url, per_second=PER_SECOND, at_once=AT_ONCE))
        source = folder / "rows.csv"
        rows = int(PER_SECOND * SECONDS)
        source.write_text("title\n" + "".join(f"{workers} workers {number}\n" for number in range(rows)))
        request = ProcessingRequest.parse(library.load(settings.current()).recipe("bench"), source=str(source))
        engine = pool.connect(url)
        with transaction(engine) as connection:
            job = submission.submit(
                connection, KINDS, submission.Request(kind_name("lookup"), "bench", request.as_params())
            ).job
            jobs.start(connection, job.job_key)
        planning.plan(engine, job)
        engine.dispose()
        command = [sys.executable, "-m", "benchmarks.provider", job.job_key]
        environment = settings.environment(BULK_DATABASE_URL=url)
        processes = [subprocess.Popen(command, env=environment) for _ in range(workers)]
        assert [each.wait() for each in processes] == [0] * workers
        moments = sorted(call.moment for call in server.calls)
        print(f"{workers} workers: {len(moments)} requests, {server.refused} refused", file=sys.stderr)
        steady = [each for each in moments if moments[0] + WARM <= each <= moments[0] + SECONDS - LAST]
        whole = (len(steady) - 1) // PER_SECOND * PER_SECOND
        return whole / (steady[whole] - steady[0]), server.refused


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as name, measure.server() as running:
        folder = Path(name)
        os.environ |= {"BULK_HOME": name, "BULK_RECIPES": name}
        for workers in (1, 8):
            with measure.database(running) as url:
                rate, refused = used(url, folder, workers)
            said = "" if workers == 1 else f"-{workers}-workers"
            measure.report(f"provider-rate{said}", rate, PER_SECOND, "requests/s")
            measure.report(f"provider-over-the-limit{said}", refused, rate * SECONDS, "requests")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        main()
