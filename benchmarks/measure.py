"""Measures several sides in one run: they take turns, so that what else the machine does falls on all of them alike."""

import json
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks import figures
from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import shared
from bulk_pipelines.database.embedded.server import Server

Measure = Callable[[], float]


@contextmanager
def server() -> Iterator[Server]:
    """Provide a PostgreSQL of the benchmark's own, which is gone with all its data when the block ends."""
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as folder, shared.held(Path(folder)) as running:
        yield running


@contextmanager
def database(running: Server, *, migrated: bool = True) -> Iterator[str]:
    """Provide the address of a new database on the server."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    with pool.single(running.url()) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            if migrated:
                migrations.apply(running.url(name))
                samples.furnish(running.url(name))
            yield running.url(name)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def settle_down(url: str) -> None:
    """Give the side that is measured next the same start: statistics are known, no row is dead, nothing is left to
    write."""
    with pool.single(url) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def in_turns(sides: Sequence[Measure], rounds: int) -> list[list[float]]:
    """Measure all sides once in every round and return the samples of each. Every second round goes in reverse
    order."""
    samples: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            samples[side].append(sides[side]())
    return samples


def show(label: str, samples: Sequence[float], unit: str) -> None:
    """Print all samples for people, on standard error."""
    middle = median(samples)
    spread = (max(samples) - min(samples)) / middle if middle else 0.0
    shown = " ".join(f"{sample:.4g}" for sample in sorted(samples))
    print(f"{label}: median {middle:.4g} {unit}, spread {spread:.0%}: {shown}", file=sys.stderr)


def report(name: str, ours: float, peer: float, unit: str) -> None:
    """Print one figure as a line of JSON, and keep it in the file that `BENCH_RESULTS` names."""
    rounded = {"ours": round(ours, 6), "peer": round(peer, 6), "unit": unit, "ratio": round(ours / peer, 4)}
    line = {"name": name} | rounded
    print(json.dumps(line), flush=True)
    if kept := os.environ.get("BENCH_RESULTS"):
        figures.keep(Path(kept), line)
