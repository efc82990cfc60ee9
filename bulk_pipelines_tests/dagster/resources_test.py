"""What Dagster's side shares: definitions that load, preloaded step processes, the database without any set-up."""

import importlib
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
import pytest

from bulk_pipelines.database.embedded.binaries import embedded
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.orchestration.resources import PRELOADED, step_executor

USE_THE_DATABASE = """
import dagster as dg
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.database import pool

@dg.op
def count(database: Database) -> int:
    with pool.transaction(database.engine) as connection:
        return connection.execute("SELECT count(*) FROM job").fetchone()[0]

@dg.job(resource_defs={"database": Database()}, executor_def=dg.in_process_executor)
def counting():
    count()

assert counting.execute_in_process().output_for_node("count") == 0
"""


@dg.op
def report() -> dict[str, object]:
    """What this step's process had before it did anything, and whose child it is."""
    parent = Path(f"/proc/{os.getppid()}/cmdline")
    return {
        "loaded": [name for name in PRELOADED if name in sys.modules],
        "parent": parent.read_text() if parent.exists() else "",
    }


@dg.job(executor_def=step_executor)
def reporting() -> None:
    report()


def test_the_definitions_load() -> None:
    from bulk_pipelines.definitions import defs

    dg.Definitions.validate_loadable(defs)


@pytest.mark.parametrize("name", PRELOADED)
def test_every_preloaded_module_can_be_imported(name: str) -> None:
    """One that fails in the forkserver is skipped there without a word."""
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True, timeout=60)
    assert importlib.import_module(name)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc to look at the parent process")
def test_a_step_s_process_is_forked_with_everything_loaded(tmp_path: Path) -> None:
    assert "forkserver" in multiprocessing.get_all_start_methods()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        dg.execute_job(dg.reconstructable(reporting), instance=instance) as result,
    ):
        assert result.success
        seen = result.output_for_node("report")
    assert seen["loaded"] == PRELOADED
    assert "multiprocessing.forkserver" in seen["parent"]


def test_the_database_is_there_without_any_set_up() -> None:
    """The script has the database as under plain `dagster dev`: the embedded server is started, migrated and, at the
    end, stopped."""
    with TemporaryDirectory(prefix="bulk-plain-", dir="/tmp") as name:
        variables = {key: value for key, value in os.environ.items() if key != "BULK_DATABASE_URL"}
        done = subprocess.run(
            [sys.executable, "-c", USE_THE_DATABASE],
            env={**variables, "BULK_HOME": name},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert not Server(Path(name) / "database" / "postgres", embedded()).running()
