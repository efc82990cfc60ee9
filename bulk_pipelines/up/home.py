"""The DAGSTER_HOME of an installation: the checkout's dagster.yaml, with storage in the same PostgreSQL as the data."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from bulk_pipelines.database import address, folders, logs, pool
from bulk_pipelines.errors import BulkError
from bulk_pipelines.settings import CHECKOUT, Settings
from bulk_pipelines.settings import environment as child_environment

SCHEMA = "dagster"
LOCATION = "bulk_pipelines"
"""What Dagster calls the place of our code."""
STORAGE_VARIABLE = "DAGSTER_STORAGE_URL"

STORAGE = f"""
# Added by `bulk up`. The address stands in the environment: the UI shows this file.
storage:
  postgres:
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
        """Where the code server listens."""
        return folders.for_sockets(self.folder, "code.sock") / "code.sock"


def prepare(settings: Settings, url: str) -> Home:
    """Write the instance's configuration and make its schema, whichever is missing: a home may come to another
    database, and a database to another home."""
    home = place(settings)
    folders.ready(home.folder)
    folders.ready(home.logs)
    folders.write(home.configuration, (CHECKOUT / "dagster.yaml").read_text() + STORAGE)
    with pool.single(url, timeout=settings.connect_timeout) as connection:
        # Looked for first: who may not make schemas may still use one that was made for it.
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [SCHEMA]).fetchone():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    return home


def write_workspace(home: Home) -> None:
    """Tell the web server and the daemon where the code server will listen."""
    home.socket.unlink(missing_ok=True)  # of a code server that was killed
    folders.write(
        home.workspace,
        f"load_from:\n  - grpc_server:\n      socket: {home.socket}\n      location_name: {LOCATION}\n",
    )


def has_storage(settings: Settings, url: str) -> bool:
    """Whether Dagster has kept something in this database before."""
    with pool.single(url, timeout=settings.connect_timeout) as connection:
        return connection.execute("SELECT to_regclass(%s)", [f"{SCHEMA}.alembic_version"]).fetchone() != (None,)


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
    """The same database for Dagster's storage: its own schema, and the one driver its storage works with."""
    target = make_url(url.replace("postgres://", "postgresql://", 1)).set(drivername="postgresql+psycopg2")
    given = target.query.get("options", "")
    options = f"{given if isinstance(given, str) else ' '.join(given)} -csearch_path={SCHEMA}".strip()
    return target.update_query_dict({"options": options}).render_as_string(hide_password=False)


def dagster(settings: Settings, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of Dagster's own commands for this installation."""
    return subprocess.run(
        [sys.executable, "-m", "dagster", *arguments],
        env=child_environment(**environment(settings, url)),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        umask=folders.UMASK,
    )


def work(settings: Settings, job_key: str) -> "subprocess.Popen[bytes]":
    """Start a process that works one job, as a run of this installation's Dagster. A Ctrl-C is not for it."""
    url = address.url(settings)
    log = prepare(settings, url).logs / "worked-here.log"
    logs.shorten(log)
    with open(log, "ab", opener=folders.owner_only) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.up.definitions", job_key],
            env=child_environment(**environment(settings, url)),
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=folders.UMASK,
        )


def upkeep(settings: Settings, name: str, *options: str) -> list[tuple[str, int, str | None]]:
    """One pass of the sweeper, the finalizer or retention, by the functions that their schedules run: what was done,
    how often, and why it could not be."""
    url = address.url(settings)
    prepare(settings, url)
    done = subprocess.run(
        [sys.executable, "-m", "bulk_pipelines.up.definitions", name, *options],
        env=child_environment(**environment(settings, url)),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        umask=folders.UMASK,
    )
    if done.returncode != 0:
        raise BulkError(f"{name} was not done: {logs.error_in(done.stderr) or 'no reason given'}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise BulkError(answer["error"])
    return [(said, count, problem) for said, count, problem in answer["rows"]]


def migrate(settings: Settings, url: str) -> None:
    """Bring Dagster's storage to the installed Dagster's version. Nothing to do before the first `bulk up`."""
    if not has_storage(settings, url):
        return
    prepare(settings, url)
    done = dagster(settings, url, "instance", "migrate")
    if done.returncode != 0:
        raise BulkError(f"Dagster's storage was not migrated: {logs.error_in(done.stderr) or 'no reason given'}")
