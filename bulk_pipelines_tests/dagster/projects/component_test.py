"""The components work in somebody else's Dagster project. The test installs the wheel and makes a project by Dagster's
own `create-dagster`; there it scaffolds components, drops a file, and finds its rows, and the asset in their UI."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from bulk_pipelines_tests.scenes.installed import SLOW, Installed, installed, wheel
from bulk_pipelines_tests.scenes.waiting import until

__all__ = ["installed", "wheel"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CREATE = ("-c", "from create_dagster.cli import main; main()")
DG = ("-c", "from dagster_dg_cli.cli import main; main()")
USERS = "email,name,role\nann@example.org,Ann,author\nbob@example.org,Bob,king\n"
MATERIALIZED = """
{ assetOrError(assetKey: {path: ["users"]}) { ... on Asset { assetMaterializations(limit: 9) { partition } } } }
"""


class Project:
    """A project of somebody else, in an environment that has the wheel."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.python = installed.environment / "bin" / "python"
        self.folder = installed.folder / "theirs"
        installed.run(self.python, *CREATE, "project", "--no-uv-sync", str(self.folder))
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(self.folder)], check=True)

    def dg(self, *arguments: str) -> str:
        command = [str(self.python), *DG, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=SLOW, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def variables(self) -> dict[str, str]:
        home = self.installed.folder / "dagster"
        home.mkdir(exist_ok=True)
        paths = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        ours = {"DAGSTER_HOME": str(home), "BULK_HOME": str(self.installed.home), "PATH": paths}
        return self.installed.variables | ours | {"COLUMNS": "200"}

    @property
    def inbox(self) -> Path:
        return self.folder / "inbox"

    def materialized(self) -> list[str]:
        """Return the partitions of their asset that Dagster shows."""
        try:
            url = f"http://127.0.0.1:{self.installed.port}/graphql"
            answer = httpx.post(url, json={"query": MATERIALIZED}, timeout=30).json()
        except httpx.HTTPError:
            return []
        found = (answer.get("data") or {}).get("assetOrError") or {}
        return [each["partition"] for each in found.get("assetMaterializations", [])]


def test_a_dropped_file_becomes_rows_and_an_asset_of_their_project(installed: Installed) -> None:
    project = Project(installed)
    listed = project.dg("list", "components")
    for name in ("Table", "Drops", "Distribution", "Processing", "Upkeep"):
        assert f"bulk_pipelines.{name}" in listed
    project.dg("scaffold", "defs", "bulk_pipelines.Table", "people", "--table", "users")
    for name, place in (("Drops", "arrivals"), ("Distribution", "files"), ("Processing", "rows"), ("Upkeep", "upkeep")):
        project.dg("scaffold", "defs", f"bulk_pipelines.{name}", place)
    project.inbox.mkdir()
    project.dg("check", "yaml")
    assert "loaded successfully" in project.dg("check", "defs")

    log = installed.folder / "dev.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(project.python), "-m", "dagster", "dev", "-m", "theirs.definitions", "-p", str(installed.port)],
            cwd=project.folder,
            env=project.variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        (project.inbox / "users.csv").write_text(USERS)
        until(lambda: process.poll() is not None or project.materialized() != [], "the asset is in their UI", SLOW)
        assert process.poll() is None, log.read_text()
        (key,) = project.materialized()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SLOW)
    shown = json.loads(installed.bulk("job", "show", key, "--json"))
    assert (shown["job"]["state"], shown["job"]["origin"]) == ("COMPLETED_WITH_ERRORS", "sensor")
    assert (shown["result"]["loaded"], shown["result"]["rejected"]) == (1, 1)
