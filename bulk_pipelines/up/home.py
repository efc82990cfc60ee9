"""The DAGSTER_HOME of an installation: the checkout's dagster.yaml, with storage in the same PostgreSQL as the data."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bulk_pipelines.database import address, pool, schemas
from bulk_pipelines.database.server import make_private, socket_folder
from bulk_pipelines.errors import BulkError
from bulk_pipelines.settings import CHECKOUT, Settings
from bulk_pipelines.settings import environment as child_environment
from bulk_pipelines.up.storage import APPLICATION, SCHEMA

STORAGE_VARIABLE = "DAGSTER_STORAGE_URL"

STORAGE = f"""
# Added by `bulk up`. The address stands in the environment: the UI shows this file.
storage:
  custom:
    module: bulk_pipelines.up.storage.definitions
    class: Storage
    config:
      postgres_url:
        env: {STORAGE_VARIABLE}
"""


@dataclass(frozen=True)
class Home:
    """Where Dagster keeps its things in this installation."""

    folder: Path

    def prepared(self) -> bool:
        return (self.folder / "dagster.yaml").exists()

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace.yaml"

    @property
    def logs(self) -> Path:
        return self.folder.parent / "logs"

    @property
    def socket(self) -> Path:
        """Where the code server listens."""
        return socket_folder(self.folder, "code.sock") / "code.sock"


def prepare(settings: Settings, url: str) -> Home:
    """Write the instance's configuration and make its schema."""
    home = place(settings)
    home.folder.mkdir(parents=True, exist_ok=True)
    home.logs.mkdir(exist_ok=True)
    home.socket.unlink(missing_ok=True)  # of a code server that was killed
    make_private(home.socket.parent, (os.geteuid(), os.getegid()))
    (home.folder / "dagster.yaml").write_text((CHECKOUT / "dagster.yaml").read_text() + STORAGE)
    home.workspace.write_text(
        f"load_from:\n  - grpc_server:\n      socket: {home.socket}\n      location_name: bulk_pipelines\n"
    )
    schemas.ensure(url, SCHEMA, settings.connect_timeout)
    return home


def ready(settings: Settings) -> str:
    """See that runs can be started here, before anything is submitted; where the database is."""
    url = address.url(settings)
    if place(settings).prepared():
        schemas.ensure(url, SCHEMA, settings.connect_timeout)
    else:
        prepare(settings, url)
    return url


def place(settings: Settings) -> Home:
    return Home(settings.home / "dagster")


def environment(settings: Settings, url: str) -> dict[str, str]:
    """The variables that make a Dagster process use this installation."""
    return {
        "DAGSTER_HOME": str(place(settings).folder),
        STORAGE_VARIABLE: storage_url(url),
        "BULK_HOME": str(settings.home),
    }


def storage_url(url: str) -> str:
    """The same database for Dagster's storage, with the one driver that works with; `up.storage` does the rest."""
    target = pool.parsed(url).set(drivername="postgresql+psycopg2")
    return target.update_query_dict({"application_name": APPLICATION}).render_as_string(hide_password=False)


def dagster(settings: Settings, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of Dagster's own commands for this installation."""
    return subprocess.run(
        [sys.executable, "-m", "dagster", *arguments],
        env=child_environment(**environment(settings, url)),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


def work(settings: Settings, job_key: str) -> "subprocess.Popen[bytes]":
    """Start a process that works one job, as a run of this installation's Dagster. A Ctrl-C is not for it."""
    url = ready(settings)
    home = place(settings)
    with (home.logs / "worked-here.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.up.definitions", job_key],
            env=child_environment(**environment(settings, url)),
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def upkeep(settings: Settings, name: str, *options: str) -> list[tuple[str, int, str | None]]:
    """One pass of the sweeper, the finalizer or retention, by the functions that their schedules run: what was done,
    how often, and why it could not be."""
    url = ready(settings)
    done = subprocess.run(
        [sys.executable, "-m", "bulk_pipelines.up.definitions", name, *options],
        env=child_environment(**environment(settings, url)),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BulkError(f"{name} was not done: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise BulkError(answer["error"])
    return [(said, count, problem) for said, count, problem in answer["rows"]]


def migrate(settings: Settings, url: str) -> None:
    """Bring Dagster's storage to the installed Dagster's version. Nothing to do before the first `bulk up`."""
    if not place(settings).prepared():
        return
    done = dagster(settings, url, "instance", "migrate")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise BulkError(f"Dagster's storage was not migrated: {lines[-1]}")
