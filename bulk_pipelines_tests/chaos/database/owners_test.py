"""The server of a home belongs to one user: root works it as that user, and everybody else is refused in words."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import machine, owner, shared
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.homes import MOUNT, for_root, postmasters
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long

NOBODY = 65534


@for_root
def test_as_root_no_folder_above_the_data_is_changed(folder: Path, binaries: Path) -> None:
    deep = folder / "closed" / "to" / "others" / "database"
    deep.parent.mkdir(parents=True)
    for place in deep.parents:
        if place.is_relative_to(folder):
            place.chmod(0o700)
    before = {place: place.stat() for place in (*deep.parents, *binaries.parents)}
    with shared.held(deep, binaries) as server:
        with pool.single(server.url()) as connection:
            connection.execute("CREATE TABLE many AS SELECT n FROM generate_series(1, 200000) AS n")
            connection.execute("SET debug_parallel_query = on")
            assert connection.execute("SELECT count(*) FROM many").fetchone() == (200000,)
        assert postmasters(server.data)[0].uids().real == pwd.getpwnam(owner.SYSTEM_USER).pw_uid
    for place, found in before.items():
        assert (place.stat().st_mode, place.stat().st_uid) == (found.st_mode, found.st_uid), place


@for_root
def test_as_root_programs_that_only_root_can_reach_are_copied(
    folder: Path, binaries: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = binaries.parent.parent
    closed = folder / "closed"
    for each in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, closed / each.name, copy_function=os.link, symlinks=True)
    closed.chmod(0o700)
    other.chmod(0o755)
    monkeypatch.setattr(owner, "COPIES", other / "made" / "here")
    server = Server(folder / "postgres", closed / binaries.relative_to(package.parent))
    server.start()
    assert len(list(owner.COPIES.iterdir())) == 1
    assert closed.stat().st_mode & 0o777 == 0o700
    server.restart()
    assert len(list(owner.COPIES.iterdir())) == 1
    server.stop()
    monkeypatch.setattr(owner, "COPIES", closed / "file" / "x")
    (closed / "file").touch()
    with pytest.raises(Unavailable, match="install into a folder that all users can enter, or do not work as root"):
        server.start()


def closed_above(path: Path) -> Path | None:
    """The uppermost folder on the way to this one that only its owner may enter."""
    return next((each for each in [*reversed(path.parents), path] if not each.stat().st_mode & 0o001), None)


def opening(paths: Sequence[Path], kept: Path) -> str:
    """Commands that let everybody reach these folders, for the processes of a mount namespace only."""
    places = {path: kept / str(number) for number, path in enumerate(paths)}
    closed = dict.fromkeys(found for path in paths if (found := closed_above(path)))
    return " && ".join(
        [
            *(f"mkdir {place} && mount --bind {path} {place}" for path, place in places.items()),
            *(f"mount -t tmpfs -o mode=755 none {each}" for each in closed),
            *(f"mkdir -p {path} && mount --bind {place} {path}" for path, place in places.items()),
        ]
    )


def bulk(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as the user nobody, to whom Python and the checkout are opened: only for this process."""
    with TemporaryDirectory() as kept:
        opened = opening([Path(sys.base_prefix).resolve(), CHECKOUT], Path(kept))
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return subprocess.run(
            [*("unshare", "--mount", "sh", "-c", f'{opened} && cd {CHECKOUT} && exec "$0" "$@"'),
             *become, sys.executable, "-m", "bulk_pipelines.cli", *arguments],
            env={**os.environ, "BULK_HOME": str(home), "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )  # fmt: skip


@for_root
def test_somebody_else_is_refused_in_one_line(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    folder.parent.chmod(0o755)
    refused = bulk(folder, "status")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"Error: {folder}/database cannot be used (Permission denied)")
    assert "BULK_HOME" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@for_root
@pytest.mark.long
@pytest.mark.parametrize("how", ["somebody else's", "read-only"])
def test_the_doctor_reports_on_a_home_that_cannot_be_written(how: str, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    if how == "read-only":
        mounting = [
            *MOUNT,
            "sh",
            "-c",
            'mount -t tmpfs -o ro none "$1" && exec "$2" -m bulk_pipelines.cli doctor',
            "sh",
        ]
        environment = {**os.environ, "BULK_HOME": str(folder / "home")}
        done = subprocess.run([*mounting, str(folder), sys.executable], env=environment, capture_output=True, text=True)
    else:
        folder.parent.chmod(0o755)
        done = bulk(folder, "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"^ok    packages", done.stdout, re.MULTILINE)
    assert re.search(r"^FAIL  storage: .* cannot be written: (Read-only|Permission)", done.stdout, re.MULTILINE)
    assert re.search(r"^ok    definitions", done.stdout, re.MULTILINE)


@for_root
@pytest.mark.long
def test_root_and_the_owner_of_a_home_share_its_server(folder: Path, binaries: Path) -> None:
    home = folder.parent / "home"
    home.mkdir(mode=0o700)
    folder.parent.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)
    assert bulk(home, "status").stdout == "no jobs yet\n"
    server = Server(home / "database" / "postgres", binaries)
    (server.data / machine.NOTE).unlink()
    with shared.held(home / "database", binaries):
        assert (server.data / machine.NOTE).stat().st_uid == NOBODY
        assert postmasters(server.data)[0].uids().real == NOBODY
        mine = bulk(home, "status")
        assert (mine.returncode, mine.stdout) == (0, "no jobs yet\n"), mine.stderr
    until(lambda: not server.running(), "it has stopped")
    assert bulk(home, "status").returncode == 0
