"""The DAGSTER_HOME of an installation: our dagster.yaml, with storage in the same PostgreSQL as the data."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bulk_pipelines.database import address, folders, logs, pool, schemas
from bulk_pipelines.errors import BulkError
from bulk_pipelines.orchestration.schema import APPLICATION, SCHEMA
from bulk_pipelines.settings import Settings, shipped
from bulk_pipelines.settings import environment as child_environment

LOCATION = "bulk_pipelines"
"""Dagster's name for the location of our code."""

STORAGE_VARIABLE = "DAGSTER_STORAGE_URL"

STORAGE = f"""
# Added by `bulk up`. The address stands in the environment: the UI shows this file.
storage:
  custom:
    module: bulk_pipelines.orchestration.storage
    class: Storage
    config:
      postgres_url:
        env: {STORAGE_VARIABLE}
"""


@dataclass(frozen=True)
class Home:
    """Where Dagster keeps its things in this installation."""

    folder: Path

    @property
    def configuration(self) -> Path:
        return self.folder / "dagster.yaml"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace.yaml"

    @property
    def logs(self) -> Path:
        return self.folder.parent / "logs"

    @property
    def socket(self) -> Path:
        """The socket on which the code server listens."""
        return folders.for_sockets(self.folder, "code.sock") / "code.sock"


def prepare(settings: Settings, url: str) -> Home:
    """Write the instance's configuration, and make its schema in the database if it is missing. Both are done each
    time, because a home may get another database, and a database another home."""
    home = place(settings)
    folders.ready(home.folder)
    folders.ready(home.logs)
    folders.write(home.configuration, shipped("dagster.yaml").read_text() + STORAGE)
    schemas.ensure(url, SCHEMA, settings.connect_timeout)
    return home


def write_workspace(home: Home) -> None:
    """Tell the web server and the daemon where the code server will listen."""
    home.socket.unlink(missing_ok=True)  # left by a code server that was killed
    folders.write(
        home.workspace,
        f"load_from:\n  - grpc_server:\n      socket: {home.socket}\n      location_name: {LOCATION}\n",
    )


def has_storage(settings: Settings, url: str) -> bool:
    """Whether Dagster has kept something in this database before."""
    with pool.single(url, timeout=settings.connect_timeout) as connection:
        kept = (
            "SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname = %s AND relname = 'alembic_version'"
        )
        return connection.execute(kept, [SCHEMA]).fetchone() is not None


def place(settings: Settings) -> Home:
    """Return where Dagster keeps its things in the installation with these settings."""
    return Home(settings.home / "dagster")


def environment(settings: Settings, url: str) -> dict[str, str]:
    """Return the variables that make a Dagster process use this installation. The process keeps the current folder, by
    which relative paths in other settings go; so Python must be told not to look there for modules."""
    return {
        "PYTHONSAFEPATH": "1",
        "DAGSTER_HOME": str(place(settings).folder),
        STORAGE_VARIABLE: storage_url(url),
        "BULK_HOME": str(settings.home),
        "BULK_DROPS_FILE": str(settings.drops_file),
    }


def storage_url(url: str) -> str:
    """Return the address of the same database for Dagster's storage, with the one driver that the storage works with.
    `orchestration.storage` does the rest."""
    target = pool.parsed(url).set(drivername="postgresql+psycopg2")
    return target.update_query_dict({"application_name": APPLICATION}).render_as_string(hide_password=False)


def dagster(settings: Settings, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of Dagster's own commands for this installation."""
    return subprocess.run(
        [sys.executable, "-m", "dagster", *arguments],
        env=child_environment(**environment(settings, url)),
        capture_output=True,
        text=True,
        check=False,
        umask=folders.UMASK,
    )


def work(settings: Settings, job_key: str) -> "subprocess.Popen[bytes]":
    """Start a process that works one job, as a run of this installation's Dagster. A Ctrl-C at the terminal does not
    reach the process."""
    url = address.url(settings)
    log = prepare(settings, url).logs / "worked-here.log"
    logs.shorten(log)
    with open(log, "ab", opener=folders.owner_only) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.up.with_dagster", job_key],
            env=child_environment(**environment(settings, url)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=folders.UMASK,
        )


def upkeep(
    settings: Settings, name: str, *options: str, told: Callable[[str], None] = lambda _: None
) -> list[tuple[str, int, str | None]]:
    """Make one pass of the sweeper, the finalizer or retention, by the functions that their schedules run. Return what
    was done, how often, and why it could not be done. `told` is called with the name of each part that begins."""
    url = address.url(settings)
    prepare(settings, url)
    answer: dict[str, Any] = {}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.up.with_dagster", name, *options],
            env=child_environment(**environment(settings, url)),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            umask=folders.UMASK,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                answer = json.loads(line) if line.startswith("{") else answer
                if "begun" in answer:
                    told(answer["begun"])
        errors.seek(0)
        if process.returncode != 0:
            raise failed(settings, f"{name} was not done", errors.read())
    if "error" in answer:
        raise BulkError(answer["error"])
    return [(said, count, problem) for said, count, problem in answer["rows"]]


def migrate(settings: Settings, url: str) -> None:
    """Bring Dagster's storage to the installed Dagster's version. Before the first `bulk up` there is nothing to do."""
    if not has_storage(settings, url):
        return
    prepare(settings, url)
    done = dagster(settings, url, "instance", "migrate")
    if done.returncode != 0:
        raise failed(settings, "Dagster's storage was not migrated", done.stderr)


def failed(settings: Settings, what: str, said: str) -> BulkError:
    """Keep what a program said in a log, and return an error with its reason in one line and the place of the log."""
    log = place(settings).logs / "commands.log"
    logs.shorten(log)
    with open(log, "a", opener=folders.owner_only) as kept:
        kept.write(said)
    return BulkError(f"{what}: {logs.error_in(said) or 'no reason given'} (see {log})")
