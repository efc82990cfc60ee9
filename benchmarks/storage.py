"""The time of landing against the commands that do the same, and of small PUTs against obstore by itself.
`make bench-storage`.

Landing copies a CSV of 1,000,000 users, brings it to the disk and hashes it; the peer is cp, sync and sha256sum, one
after another. The same CSV packed by gzip is landed too; there the peer is gzip -dc, sync and sha256sum. The PUTs write
4,000 objects of 4 kB in eight threads.
"""

import gzip
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore

from benchmarks import user_files
from benchmarks.export_scene import alternating
from benchmarks.measure import report
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.landing import land
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines.storage.s3.storage import S3Storage
from bulk_pipelines_tests.servers import processes

ROWS, ROUNDS = 1_000_000, 7
OBJECTS, SIZE, THREADS = 4000, 4000, 8


def landing(folder: Path) -> None:
    source = user_files.write(folder / "users.csv", user_files.users(ROWS))
    packed = folder / "users.csv.gz"
    with source.open("rb") as file, gzip.open(packed, "wb", 6) as target:
        shutil.copyfileobj(file, target, 1 << 20)
    into = LocalStorage(folder / "landed")
    times = alternating(
        ROUNDS,
        {
            "csv": lambda: land(str(source), into, "csv", Access()),
            "cp": shell(f"cp {source} {folder}/copy && sync {folder}/copy && sha256sum {folder}/copy"),
            "gzip": lambda: land(str(packed), into, "gzip", Access()),
            "gunzip": shell(f"gzip -dc {packed} > {folder}/copy && sync {folder}/copy && sha256sum {folder}/copy"),
        },
    )
    report("landing-csv", times["csv"], times["cp"], "s")
    report("landing-gzip", times["gzip"], times["gunzip"], "s")


def shell(command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["/bin/sh", "-c", command], check=True, stdout=subprocess.DEVNULL)


def small_puts(folder: Path) -> None:
    with processes.s3(folder) as server, ThreadPoolExecutor(THREADS) as threads:
        storage = S3Storage(server.bucket().url.removeprefix("s3://"), "", server.access.s3)
        body = b"x" * SIZE
        times = alternating(
            ROUNDS,
            {
                "ours": lambda: list(threads.map(lambda n: storage.put(f"ours/{n}", body), range(OBJECTS))),
                "obstore": lambda: list(
                    threads.map(lambda n: obstore.put(storage.store, f"raw/{n}", body), range(OBJECTS))
                ),
            },
        )
    report("storage-small-puts", OBJECTS / times["ours"], OBJECTS / times["obstore"], "objects/s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as name:
        landing(Path(name))
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as name:
        small_puts(Path(name))
