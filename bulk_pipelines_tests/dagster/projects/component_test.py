"""The components work in somebody else's Dagster project, on a database and a table of theirs. The test installs the
wheel and makes a project by Dagster's own `create-dagster`; there it adopts tables, scaffolds components, drops a file,
and finds its rows, and the asset in their UI."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.installed import SLOW, Installed, installed, wheel
from bulk_pipelines_tests.scenes.waiting import until

__all__ = ["installed", "wheel"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CREATE = ("-c", "from create_dagster.cli import main; main()")
DG = ("-c", "from dagster_dg_cli.cli import main; main()")
TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.customers (id integer PRIMARY KEY, name text NOT NULL);
INSERT INTO shop.customers VALUES (1, 'Ann');
CREATE TABLE shop.orders (
    number text PRIMARY KEY, customer_id integer NOT NULL REFERENCES shop.customers, total numeric(10, 2)
);
"""
ORDERS = "Order No,customer_id,total\nA1,1,9.50\nA2,99,1\n"
DROPS = """
[[source]]
name = "inbox"
where = "inbox"

[[source.files]]
glob = "*.csv"
resource = "orders"
"""
WAREHOUSE = "WAREHOUSE_URL"
MATERIALIZED = """{
    assetOrError(assetKey: {path: ["orders"]}) { ... on Asset { assetMaterializations(limit: 9) { partition } } }
    assetNodes { assetKey { path } dependencyKeys { path } }
}"""


class Project:
    """A project of somebody else, in an environment that has the wheel."""

    def __init__(self, installed: Installed, database: str) -> None:
        self.installed = installed
        self.database = database
        self.python = installed.environment / "bin" / "python"
        self.folder = installed.folder / "theirs"
        installed.run(self.python, *CREATE, "project", "--no-uv-sync", str(self.folder))
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(self.folder)], check=True)

    def dg(self, *arguments: str) -> str:
        return self.run(self.variables, self.python, *DG, *arguments)

    def bulk(self, *arguments: str) -> str:
        """Give a command, which knows no other variable of the database than its own."""
        variables = self.variables | {"BULK_DATABASE_URL": self.database}
        return self.run(variables, self.python.with_name("bulk"), *arguments)

    def run(self, variables: dict[str, str], *command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=SLOW, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def scaffold(self, component: str, name: str, *options: str) -> Path:
        """Scaffold a component on the database of the project, and return its folder."""
        self.dg("scaffold", "defs", f"bulk_pipelines.{component}", name, *options)
        folder = self.folder / "src" / "theirs" / "defs" / name
        written = yaml.safe_load((folder / "defs.yaml").read_text())
        written["attributes"] = {**(written.get("attributes") or {}), "database": WAREHOUSE}
        (folder / "defs.yaml").write_text(yaml.safe_dump(written))
        return folder

    @property
    def variables(self) -> dict[str, str]:
        home = self.installed.folder / "dagster"
        home.mkdir(exist_ok=True)
        paths = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        ours = {"DAGSTER_HOME": str(home), "BULK_HOME": str(self.installed.home), "PATH": paths}
        return self.installed.variables | ours | {WAREHOUSE: self.database, "COLUMNS": "200"}

    @property
    def inbox(self) -> Path:
        return self.folder / "inbox"

    def assets(self) -> tuple[list[str], dict[str, list[str]]]:
        """Return the partitions of the orders that Dagster shows, and what each asset depends on."""
        try:
            url = f"http://127.0.0.1:{self.installed.port}/graphql"
            answer = httpx.post(url, json={"query": MATERIALIZED}, timeout=30).json()
        except httpx.HTTPError:
            return [], {}
        told = answer.get("data") or {}
        found = (told.get("assetOrError") or {}).get("assetMaterializations", [])
        nodes = {"/".join(each["assetKey"]["path"]): each["dependencyKeys"] for each in told.get("assetNodes", [])}
        depend = {name: ["/".join(each["path"]) for each in keys] for name, keys in nodes.items()}
        return [each["partition"] for each in found], depend


def test_a_dropped_file_becomes_rows_and_an_asset_of_their_project(
    installed: Installed, empty_database_url: str
) -> None:
    project = Project(installed, empty_database_url)
    with pool.single(empty_database_url) as connection:
        connection.execute(TABLES.encode(), prepare=False)
    project.bulk("migrate")
    project.bulk("resources", "adopt", "shop.customers")
    project.bulk("resources", "adopt", "shop.orders", "--provenance")
    declared = installed.folder / "resources" / "orders.toml"
    declared.write_text(declared.read_text().replace('name = "number"', 'name = "number"\nin_files = "Order No"'))
    assert "orders: as the table" in project.bulk("resources", "check")

    listed = project.dg("list", "components")
    for name in ("Table", "Drops", "Distribution", "Processing", "Upkeep"):
        assert f"bulk_pipelines.{name}" in listed
    project.scaffold("Table", "orders", "--table", "orders")
    project.scaffold("Table", "customers", "--table", "customers")
    for name, place in (("Distribution", "files"), ("Processing", "rows"), ("Upkeep", "upkeep")):
        project.scaffold(name, place)
    (project.scaffold("Drops", "arrivals") / "drops.toml").write_text(DROPS)
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
        (project.inbox / "orders.csv").write_text(ORDERS)
        until(lambda: process.poll() is not None or project.assets()[0] != [], "the asset is in their UI", SLOW)
        assert process.poll() is None, log.read_text()
        (key,), depend = project.assets()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SLOW)
    assert depend["orders"] == ["customers"]
    shown = json.loads(project.bulk("job", "show", key, "--json"))
    assert (shown["job"]["state"], shown["job"]["origin"]) == ("COMPLETED_WITH_ERRORS", "sensor")
    assert (shown["result"]["loaded"], shown["result"]["rejected"]) == (1, 1)
    assert "invalid_reference" in project.bulk("import", "errors", key)
    with pool.single(empty_database_url) as connection:
        rows = connection.execute("SELECT number, total::text, import_line FROM shop.orders").fetchall()
    assert rows == [("A1", "9.50", 2)]
    assert not (installed.home / "postgres").exists(), "no other database is needed"
