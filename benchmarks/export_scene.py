"""What the export benchmarks share: a server of their own full of users, and figures as lines of JSON."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import shared

INSERT = """
    INSERT INTO users (id, email, name, role, active, created_at, updated_at)
    SELECT md5(n::text)::uuid, 'user-' || n || '@example.com', 'Somebody Number ' || n,
           (ARRAY['admin', 'editor', 'author', 'reader'])[n % 4 + 1], n % 3 <> 0,
           timestamptz '2024-01-01' + n * interval '37.123456 seconds',
           timestamptz '2025-01-01' + n * interval '41.5 seconds'
    FROM generate_series(1, {rows}) n
"""


@contextmanager
def users(rows: int) -> Iterator[tuple[Engine, Path]]:
    """Provide a pool on a new database with so many users, and an empty folder on the same disk."""
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as name:
        folder = Path(name)
        with shared.held(folder) as server:
            url = server.url()
            migrations.apply(url)
            samples.furnish(url)
            with pool.single(url) as connection:
                # The benchmark measures reading, which does not look addresses up, and their index is slow to fill.
                connection.execute("DROP INDEX users_email_key")
                connection.execute(INSERT.format(rows=rows).encode())
                connection.execute("VACUUM ANALYZE users")
                connection.execute("CHECKPOINT")
            engine = pool.connect(url)
            files = folder / "files"
            files.mkdir()
            yield engine, files
            engine.dispose()


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternating(rounds: int, works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each work. Every round runs each of them once; the first round does not count.

    Before each begins, the system writes to the disk what the one before left unwritten. Our export brings its file to
    the disk itself, and would otherwise pay for the peer's file too, because the peer leaves that to the system.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            os.sync()
            spent = seconds(work)
            if turn:
                times[name].append(spent)
    return {name: statistics.median(spent) for name, spent in times.items()}
