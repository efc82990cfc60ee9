"""The wheel works alone: built from the source archive, installed into an environment that does not know the checkout,
and used in an empty folder."""

import csv
import os
import shutil
import signal
import subprocess
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.up import processes
from bulk_pipelines_tests.scenes.installed import SLOW, Installed, alone, built, installed, wheel
from bulk_pipelines_tests.scenes.waiting import until

__all__ = ["alone", "installed", "wheel"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FETCHED = os.environ.get("DEPENDENCIES") == "index"
"""Whether pip fetches what the wheel depends on, as it does for a user."""
VERSION = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
USERS = "email,name,role\nann@example.org,Ann,author\nbob@example.org,Bob,king\n"


def test_the_wheel_is_the_same_from_the_checkout_and_from_the_source_archive(wheel: Path, tmp_path: Path) -> None:
    def contents(file: Path) -> dict[str, int]:
        with zipfile.ZipFile(file) as opened:
            return {each.filename: each.CRC for each in opened.infolist()}

    assert contents(built(CHECKOUT, "wheel", tmp_path)) == contents(wheel)


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param("installed", marks=pytest.mark.skipif(FETCHED, reason="DEPENDENCIES=index: pip fetches them")),
        pytest.param("alone", marks=pytest.mark.skipif(not FETCHED, reason="DEPENDENCIES=index lets pip fetch them")),
    ],
)
def test_the_wheel_works_alone(environment: str, request: pytest.FixtureRequest) -> None:
    installed: Installed = request.getfixturevalue(environment)
    assert str(CHECKOUT / "bulk_pipelines") not in installed.python("import bulk_pipelines as b; print(b.__file__)")
    assert str(CHECKOUT) not in installed.python(
        "import sys; print([each for each in sys.path if '.venv' not in each])"
    )
    assert installed.bulk("--version") == f"bulk, version {VERSION}\n"
    assert list(installed.folder.iterdir()) == []

    # What lies in the folder is data: no process of ours takes it for a module.
    for module in ("dagster", "random", "bulk_pipelines"):
        (installed.folder / f"{module}.py").write_text("raise SystemExit('this is not the module that was meant')")
    assert "FAIL" not in installed.bulk("doctor")

    (installed.folder / "mine.csv").write_text(USERS)
    assert "1 loaded" in installed.bulk("import", "mine.csv", "--resource", "users", code=3)

    below = replace(installed, folder=installed.folder / "below" / "it")
    below.folder.mkdir(parents=True)
    assert "import_users" in below.bulk("status")
    assert exported(below) == {"ann@example.org"}

    works_under_dagster(installed)
    assert exported(installed) == {"ann@example.org", "eve@example.org"}


def exported(installed: Installed) -> set[str]:
    """Export the users, and return their addresses."""
    target = installed.folder / "out"
    installed.bulk("export", "users", "--format", "csv", "--to", "out/")
    [file] = target.iterdir()
    with file.open(newline="") as text:
        found = {each["email"] for each in csv.DictReader(text)}
    shutil.rmtree(target)
    return found


def works_under_dagster(installed: Installed) -> None:
    """Start everything, drop a file, see its rows, and stop."""
    log = installed.folder / "up.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [installed.environment / "bin" / "bulk", "up"],
            cwd=installed.folder,
            env=installed.variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until(lambda: process.poll() is not None or installed.answers(), "the UI answers", SLOW)
        assert process.poll() is None, log.read_text()
        inbox = installed.home / "inbox"
        inbox.mkdir(exist_ok=True)
        (inbox / "users.csv").write_text(USERS.replace("ann@", "eve@"))
        until(lambda: "DONE" in installed.bulk("drops", "list"), "the dropped file is imported", SLOW)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SLOW)
    assert process.returncode == 0, log.read_text()
    assert processes.marked(processes.identity(installed.home)) == []
