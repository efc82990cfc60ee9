"""`bulk up` as a real process: the UI answers, history stays, and nothing is left behind however it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import psutil
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.settings import CHECKOUT, Settings
from bulk_pipelines.up import home, processes
from bulk_pipelines.up.programs import EARLY_ENDS
from bulk_pipelines_tests.scenes.installation import SLOW, Installation, made, started
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long

LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries {
    name locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
ASSETS = "{ assetsOrError { ... on AssetConnection { nodes { key { path } } } } }"

KEEP_AN_EVENT = """
import dagster as dg
dg.DagsterInstance.get().report_runless_asset_event(dg.AssetMaterialization("kept"))
"""


@pytest.fixture
def installation() -> Iterator[Installation]:
    with made() as place:
        yield place


def finished(process: subprocess.Popen[str], seconds: float = SLOW) -> str:
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said


def nothing_is_left(installation: Installation) -> None:
    assert installation.left() == []
    assert not installation.server.running()


def service(installation: Installation, word: str) -> psutil.Process:
    """The first process of this installation with this word in its command."""
    return next(each for each in processes.marked(processes.identity(installation.folder)) if word in each.cmdline())


def test_the_ui_answers_and_the_next_start_finds_the_same_history(installation: Installation) -> None:
    with started(installation) as process:
        locations = installation.ask(LOCATIONS)["workspaceOrError"]
        assert locations == {
            "locationEntries": [{"name": "bulk_pipelines", "locationOrLoadError": {"__typename": "RepositoryLocation"}}]
        }
        until(installation.all_daemons_healthy, "every daemon is healthy", SLOW)
        keep_an_event(installation)
        assert "kept" in str(installation.ask(ASSETS))
        process.send_signal(signal.SIGINT)
        assert finished(process).endswith("Everything has stopped\n")
    nothing_is_left(installation)
    with started(installation) as process:
        assert "kept" in str(installation.ask(ASSETS))
        process.send_signal(signal.SIGTERM)
        finished(process)
    nothing_is_left(installation)


def keep_an_event(installation: Installation) -> None:
    chosen = Settings(home=installation.folder)
    variables = home.environment(chosen, installation.server.url())
    subprocess.run([sys.executable, "-c", KEEP_AN_EVENT], env={**os.environ, **variables}, check=True, timeout=SLOW)


def test_a_second_one_and_a_taken_port_are_refused_in_one_line(installation: Installation) -> None:
    with started(installation) as process:
        second = installation.start()
        said, _ = second.communicate(timeout=SLOW)
        assert second.returncode == 1
        assert said == f"Error: `bulk up` runs already for {installation.folder}, as process {process.pid}\n"
        other = Installation(installation.folder.with_name("other"), installation.port).start()
        said, _ = other.communicate(timeout=SLOW)
        assert other.returncode == 1
        assert said.startswith(f"Error: BULK_UI_PORT: port {installation.port} cannot be used")
        assert installation.ask(LOCATIONS)
        process.send_signal(signal.SIGHUP)
        finished(process)
    nothing_is_left(installation)


def test_killed_it_leaves_nothing_behind(installation: Installation) -> None:
    with started(installation) as process:
        process.kill()
        process.wait()
        until(lambda: installation.left() == [], "everything has ended", SLOW)
    nothing_is_left(installation)


def test_killed_together_with_its_guard_it_does_not_block_the_next_start(installation: Installation) -> None:
    with started(installation) as process:
        guards = [each for each in installation.left() if "bulk_pipelines.up.guard" in each.cmdline()]
        assert len(guards) == 1
        guards[0].kill()
        process.kill()
        process.wait()
        orphans = processes.marked(processes.identity(installation.folder))
        assert orphans
    with started(installation) as process:
        assert set(orphans).isdisjoint(installation.left())
        assert installation.ask(LOCATIONS)
        process.send_signal(signal.SIGINT)
        finished(process)
    nothing_is_left(installation)


def test_children_that_hang_are_killed_and_a_second_ctrl_c_does_not_wait(installation: Installation) -> None:
    with started(installation) as process:
        for word in ("dagster_webserver", "dagster._daemon", "api"):
            service(installation, word).suspend()
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "Stopping\n"
        process.send_signal(signal.SIGINT)
        finished(process, 10)
    nothing_is_left(installation)


def test_children_that_hang_are_killed_after_a_while(installation: Installation) -> None:
    with started(installation) as process:
        service(installation, "dagster._daemon").suspend()
        process.send_signal(signal.SIGINT)
        finished(process)
    nothing_is_left(installation)


def test_a_service_that_keeps_ending_ends_everything_with_its_reason(installation: Installation) -> None:
    with started(installation) as process:
        assert process.stdout is not None
        for _ in range(EARLY_ENDS):
            service(installation, "dagster._daemon").kill()
            assert process.stdout.readline() == "The daemon had ended and was started again\n"
        service(installation, "dagster._daemon").kill()
        said, _ = process.communicate(timeout=SLOW)
        assert process.returncode == 1
        assert "Error: the daemon ended with code -9" in said
    nothing_is_left(installation)


def test_a_given_database_is_used_and_left_running(
    installation: Installation, server: Server, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", empty_database_url)
    with started(installation) as process:
        assert "RepositoryLocation" in str(installation.ask(LOCATIONS))
        assert not installation.server.data.exists()
        with pool.single(empty_database_url) as connection:
            tables = connection.execute(
                "SELECT schemaname FROM pg_tables WHERE tablename IN ('job', 'runs')"
            ).fetchall()
        assert sorted(tables) == [("bulk",), ("dagster",)]
        process.send_signal(signal.SIGINT)
        finished(process)
    nothing_is_left(installation)
    assert server.running()


def test_asked_to_stop_while_it_starts(installation: Installation) -> None:
    process = installation.start()
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Starting Dagster")
    process.send_signal(signal.SIGINT)
    assert "Dagster's UI" not in finished(process)
    nothing_is_left(installation)


def test_a_database_that_dies_is_started_again(installation: Installation) -> None:
    with started(installation) as process:
        postmaster = installation.server.postmaster()
        assert postmaster is not None
        postmaster.kill()
        assert process.stdout is not None
        assert process.stdout.readline() == "The database had ended and was started again\n"
        until(lambda: serves(installation, process), "the UI answers again", SLOW)
        until(installation.all_daemons_healthy, "every daemon is healthy", SLOW)
        process.send_signal(signal.SIGINT)
        finished(process)
    nothing_is_left(installation)


def test_plain_dagster_dev_works_in_a_checkout(installation: Installation) -> None:
    """No DAGSTER_HOME, no setting but those that keep this test away from the developer's own data."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "BULK"))}
    installation.folder.mkdir(mode=0o700)
    process = subprocess.Popen(
        [sys.executable, "-m", "dagster", "dev", "--port", str(installation.port)],
        cwd=CHECKOUT,
        env={**variables, **installation.variables, **processes.mark(installation.folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: serves(installation, process), "the UI answers with our location", SLOW)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SLOW)
    until(lambda: installation.left() == [], "everything has ended", SLOW)


def serves(installation: Installation, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, "it has ended"
    try:
        return "RepositoryLocation" in str(installation.ask(LOCATIONS))
    except httpx.HTTPError:
        return False
