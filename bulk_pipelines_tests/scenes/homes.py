"""Processes that use the server of a home, and what can be seen of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server

for_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, on Linux")
USE = """
import sys
from pathlib import Path
import psycopg
from bulk_pipelines.database.embedded import shared
with shared.held(Path(sys.argv[1]), Path(sys.argv[2])) as server:
    with psycopg.connect(server.url()) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        print(connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()[0], flush=True)
    sys.stdin.read()
"""
MOUNT = ["unshare", "--mount"]


def script(text: str, folder: Path, binaries: Path) -> list[str]:
    return [sys.executable, "-c", text, str(folder), str(binaries)]


@contextmanager
def user(command: list[str], **options: object) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def since(process: subprocess.Popen[str]) -> str:
    """Return when the server that this process uses was started."""
    assert process.stdout is not None
    answer = process.stdout.readline()
    assert answer, "it could not use the server"
    return answer


def rows(server: Server) -> int:
    with pool.single(server.url()) as connection:
        (count,) = connection.execute("SELECT count(*) FROM kept").fetchone() or (0,)
    return int(count)


def postmasters(folder: Path) -> list[psutil.Process]:
    """Every PostgreSQL at home in this folder whose parent is none, wherever it runs."""
    parents = {}
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"].startswith("postgres") and Path(f"/proc/{process.pid}/cwd").samefile(folder):
                parents[process] = process.ppid()
        except (OSError, psutil.Error):
            continue
    pids = {each.pid for each in parents}
    return [process for process, parent in parents.items() if parent not in pids]


def leaves(process: subprocess.Popen[str]) -> None:
    process.communicate("", timeout=60)
    assert process.returncode == 0
