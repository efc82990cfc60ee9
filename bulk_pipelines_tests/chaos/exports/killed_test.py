"""A process that dies while it writes an export leaves no file by that name, and the next try publishes one."""

import hashlib
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, names_in, watching
from bulk_pipelines_tests.scenes.waiting import until

# Writes until it is told to go on, and says when it is in the middle.
WRITER = """
import sys
from pathlib import Path
from bulk_pipelines.database import pool
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.storage.local.storage import LocalStorage

url, folder, format_ = sys.argv[1:]

def progress(tally):
    if tally.bytes > 1 << 20:
        print("in the middle", flush=True)
        sys.stdin.readline()

request = ExportRequest("users", Format(format_))
write(pool.connect(url), request, LocalStorage(Path(folder)), "users", progress=progress)
"""


@pytest.mark.parametrize("format_", [Format.CSV, Format.PARQUET, Format.XLSX])
def test_killed_in_the_middle(engine: Engine, tmp_path: Path, format_: Format) -> None:
    insert_users(engine, 100_000)
    url = engine.url.render_as_string(hide_password=False)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(tmp_path), format_.value],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "in the middle\n"
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    (left,) = names_in(tmp_path)
    assert left.startswith(".users.")
    with watching(engine) as connection:
        until(lambda: exporting(connection) == 0, "PostgreSQL has noticed")

    storage = LocalStorage(tmp_path)
    result = write(engine, ExportRequest("users", format_), storage, "users")
    assert result.rows == 100_000
    assert hashlib.sha256((tmp_path / "users").read_bytes()).hexdigest() == result.sha256
    assert storage.sweep(datetime.now(UTC) + timedelta(seconds=1)) == 1
    assert names_in(tmp_path) == ["users"]
