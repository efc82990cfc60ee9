"""One home through its life: with one database, then with another; by another path; and who may read what is in it."""

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.installation import SLOW, Installation, made, running, started
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long

USERS = str(CHECKOUT / "docs" / "samples" / "users.csv")


@contextmanager
def usual_umask() -> Iterator[None]:
    """What most people's shells have: others may read."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(home: Path) -> list[str]:
    """What somebody else than the owner may do anything with."""
    places = [each.relative_to(home) for each in (home, *home.rglob("*")) if not each.is_symlink()]
    modes = {place: stat.S_IMODE((home / place).stat().st_mode) for place in places}
    return [f"{mode:o} {place}" for place, mode in modes.items() if mode & 0o077]


def test_everything_in_a_home_is_for_its_owner_alone() -> None:
    with usual_umask(), running() as installation:
        inbox = installation.folder / "inbox"
        until(inbox.exists, "the sensor has looked", SLOW)
        dropped = inbox / "users_dropped.csv"
        dropped.touch(mode=0o600)
        dropped.write_text("name,email,role\nEve,eve@dropped.example,reader\n")
        target = installation.folder / "made"
        assert "3 loaded" in installation.bulk("import", USERS, "--resource", "users").stdout
        assert installation.bulk("export", "users", "--to", str(target)).returncode == 0
        assert installation.bulk("export", "users", "--format", "xlsx").returncode == 0
        until(lambda: bool([*inbox.glob("done/*/users_dropped.csv")]), "the dropped file was imported", SLOW)
        assert installation.bulk("sweep").returncode == 0
        assert [each.suffix for each in target.iterdir()] == [".csv"]
        assert open_to_others(installation.folder) == []


def test_the_same_home_by_another_path_is_the_same_installation() -> None:
    with made() as installation:
        link = installation.folder.with_name("link")
        link.symlink_to(installation.folder)
        other = Installation(link, installation.port)
        with started(installation) as process:
            second = other.start()
            said, _ = second.communicate(timeout=SLOW)
            assert (second.returncode, said) == (
                1,
                f"Error: `bulk up` runs already for {link}, as process {process.pid}\n",
            )
            assert "3 loaded" in other.bulk("import", USERS, "--resource", "users").stdout
            assert "COMPLETED_WITH_ERRORS" in installation.bulk("status").stdout
            assert installation.server.running()
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=SLOW)[0].endswith("Everything has stopped\n")
        assert not installation.server.running()
        assert "COMPLETED_WITH_ERRORS" in other.bulk("status").stdout


def test_a_home_goes_from_one_database_to_another_and_back(empty_database_url: str) -> None:
    """The databases are those of the README: first the embedded one, then one of one's own."""
    with made() as installation:
        elsewhere = replace(installation, settings={"BULK_DATABASE_URL": empty_database_url})
        assert "3 loaded" in installation.bulk("import", USERS, "--resource", "users").stdout
        refused = elsewhere.bulk("import", USERS, "--resource", "users")
        assert refused.stderr == "Error: the database's schema is not up to date: run `bulk migrate`\n"
        for arguments, answer in (
            (("migrate",), "applied 0001"),
            (("resources", "sample"), "made users"),
            (("import", USERS, "--resource", "users"), "3 loaded"),
            (("sweep",), "done"),
            (("migrate",), "the schema is up to date"),
            (("doctor",), "ok    dagster instance"),
        ):
            done = elsewhere.bulk(*arguments)
            assert done.returncode == (3 if "import" in arguments else 0), done.stderr
            assert answer in done.stdout
        assert "COMPLETED_WITH_ERRORS" in installation.bulk("status").stdout
        assert installation.bulk("doctor").returncode == 0
