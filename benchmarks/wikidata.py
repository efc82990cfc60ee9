"""Rows a minute matched with Wikidata, under Wikimedia's limits, against one search and one `wbgetentities` a row.

Both sides ask a server of the benchmark's own, which has the brands' entities and counts by its own clock: 200 requests
a minute, three at once, refusals for whoever asks for more. Both ask through our own client, so both use all that is
allowed. The other side decides as OpenRefine does: the candidate that is more alike than 95 of 100, and leads by 10.
`BENCH_MINUTES` says for how long each side works (2).
"""

import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rapidfuzz import fuzz

from benchmarks import brands, measure
from benchmarks.brands import Brands, Named
from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.rate_limit import Limiter, MustWait
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.errors import Failure
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.matching.folding import fold
from bulk_pipelines.processing.providers.asking import Call, Desk
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.request import ProcessingRequest, kind_name
from bulk_pipelines.processing.wikidata import questions
from bulk_pipelines_tests.servers.wikimedia_server import Item, Wikimedia

MINUTES = float(os.environ.get("BENCH_MINUTES", "2"))
MOST_ROWS = 12_000
ANSWER_SECONDS = 0.15
SEED = 13
TEN = "10"

RECIPES = """
[provider.wikidata]
address = "{address}w/"
contact = "benchmark@example.org"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
maxlag = 5
patience = 100

[provider.wikidata-query]
address = "{address}"
contact = "benchmark@example.org"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
patience = 100

[provider.wikipedia-en]
address = "{address}en/w/"
contact = "benchmark@example.org"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
maxlag = 5
patience = 100

[recipe.brands]
type = "wikidata"
titles = ["wikipedia-en"]
context = "{{category}}"
not_found_attempts = 1
variants = [
    {{ name = "exact", query = "{{name}}" }},
    {{ name = "legal form stripped", query = "{{name}}", form = "stripped" }},
    {{ name = "comma-inverted", query = "{{name}}", form = "inverted" }},
    {{ name = "transliterated", query = "{{name}}", form = "transliterated" }},
    {{ name = "acronym", query = "{{name}}", form = "acronym" }},
]
"""


def items(data: Brands) -> list[Item]:
    return [Item(e.id, e.names[0], e.description, claims={"P856": e.websites}) for e in data.entries]


def work(job_key: str) -> None:
    """Work the job as one worker does, in a process of its own."""
    engine = pool.connect(settings.current().database_url, size=10)
    with transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    with Worker(engine, KINDS, job) as worker:
        drain.drain(worker, seconds=MINUTES * 60 + 30)


def ours(url: str, folder: Path, rows: Sequence[Named], wiki: Wikimedia) -> tuple[dict[int, str | None], float, int]:
    """Return the answers that came within the time, how many rows a minute these are, and how many requests were
    refused."""
    with wiki.server(ANSWER_SECONDS) as server:
        (folder / "bench.toml").write_text(RECIPES.format(address=server.url))
        source = folder / "rows.csv"
        lines = (f'"{row.name.replace(chr(34), chr(34) * 2)}","{" ".join(row.query.types)}"\n' for row in rows)
        source.write_text("name,category\n" + "".join(lines))
        request = ProcessingRequest.parse(library.load(settings.current()).to_run("brands"), source=str(source))
        engine = pool.connect(url)
        with transaction(engine) as connection:
            job = submission.submit(
                connection, KINDS, submission.Request(kind_name("wikidata"), "bench", request.as_params())
            ).job
            jobs.start(connection, job.job_key)
        planning.plan(engine, job)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.wikidata", job.job_key],
            env=settings.environment(BULK_DATABASE_URL=url),
        )
        try:
            while not server.calls and process.poll() is None:
                time.sleep(0.01)
            threading.Event().wait(max(0.0, server.calls[0].moment + 60 * MINUTES - time.monotonic()))
            with transaction(engine) as connection:
                found = connection.execute(
                    "SELECT item_key, result -> 'evidence' ->> 'id' FROM job_item"
                    " WHERE job_id = %s AND status IN ('SUCCEEDED', 'NOT_FOUND', 'SKIPPED')",
                    (job.job_id,),
                ).fetchall()
            made = len(server.calls)
        finally:
            process.kill()
            process.wait()
        engine.dispose()
        print(f"ours: {len(found)} rows by {made} requests, {server.refused} refused", file=sys.stderr)
        return {int(key) - 1: id_ for key, id_ in found}, len(found) / MINUTES, server.refused


def peers_answer(call: Call, row: Named) -> str | None:
    found, _ = questions.search(call, questions.plain(row.name), int(TEN), "en")
    if not found:
        return None
    known = questions.of_entities(("en",), ("P31",))([each.id for each in found], call)
    asked = fold(row.name)
    scored = sorted(
        (
            (max(fuzz.token_sort_ratio(asked, fold(name)) for name in each["names"]), each["id"])
            for each in known.values()
        ),
        reverse=True,
    )
    best, second = scored[0], scored[1][0] if len(scored) > 1 else 0.0
    return best[1] if best[0] > 95 and best[0] - second >= 10 else None


def peer(url: str, folder: Path, rows: Sequence[Named], wiki: Wikimedia) -> tuple[dict[int, str | None], float, int]:
    """Measure the other side: three threads, each with one row at a time."""
    found: dict[int, str | None] = {}
    with wiki.server(ANSWER_SECONDS) as server:
        (folder / "bench.toml").write_text(RECIPES.format(address=server.url))
        provider = library.load(settings.current()).providers["wikidata"]
        engine = pool.connect(url)
        limiter = Limiter(engine, provider.limit)
        desk = Desk(engine, {provider.name: provider}, lambda _: limiter, stored=False)
        numbers, ends = itertools.count(), time.monotonic() + 60 * MINUTES

        def one(_: int) -> None:
            while time.monotonic() < ends:
                number = next(numbers)
                try:
                    answer = peers_answer(lambda request: desk.call(provider, request), rows[number])
                except (Failure, MustWait):
                    continue
                if time.monotonic() < ends:
                    found[number] = answer

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(one, range(3)))
        engine.dispose()
        print(f"peer: {len(found)} rows by {len(server.calls)} requests, {server.refused} refused", file=sys.stderr)
        return found, len(found) / MINUTES, server.refused


def unlimited(rows: Sequence[Named], numbers: Sequence[int], wiki: Wikimedia) -> dict[int, str | None]:
    """What the other side answers to all rows that ours came to, without the limits that would take it hours."""

    def call(request: object) -> object:
        form = request.form  # type: ignore[attr-defined]
        return wiki.entities(form) if form["action"] == "wbgetentities" else wiki.search(form)

    return {number: peers_answer(call, rows[number]) for number in numbers}


def shares(data: Brands, rows: Sequence[Named], found: dict[int, str | None]) -> tuple[float, float]:
    """Return precision and recall."""
    given = [(rows[number].name, id_) for number, id_ in found.items() if id_ is not None]
    right = sum(data.is_right(name, id_) for name, id_ in given)
    return right / max(1, len(given)), right / max(1, len(found))


def main() -> None:
    data = brands.load()
    rows = random.Random(SEED).sample(data.names, min(MOST_ROWS, len(data.names)))
    wiki = Wikimedia(items(data))
    wiki.ranked("warm"), wiki.pages, wiki.named
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as name, measure.server() as running:
        os.environ |= {"BULK_HOME": name, "BULK_RECIPES": name}
        with measure.database(running) as url:
            answers, rate, refused = ours(url, Path(name), rows, wiki)
        with measure.database(running) as url:
            _, peers_rate, peers_refused = peer(url, Path(name), rows, wiki)
    peers = unlimited(rows, sorted(answers), wiki)
    precision, recall = shares(data, rows, answers)
    peers_precision, peers_recall = shares(data, rows, peers)
    print(f"ours: precision {precision:.4f}, recall {recall:.4f}", file=sys.stderr)
    print(f"peer, on the same rows: precision {peers_precision:.4f}, recall {peers_recall:.4f}", file=sys.stderr)
    assert not peers_refused, "the other side keeps the limits, too"
    measure.report("wikidata-rows", rate, peers_rate, "rows/min")
    measure.report("wikidata-over-the-limit", refused, max(1, len(answers)), "requests")
    measure.report("wikidata-recall", recall, peers_recall, "share")
    measure.report("wikidata-precision", precision, peers_precision, "share")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        main()
