"""The wheel works alone: built from the source archive, installed into an environment that does not know the checkout,
and used in an empty folder."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.up import processes
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SLOW = 240.0
VERSION = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
USERS = "email,name,role\nann@example.org,Ann,author\nbob@example.org,Bob,king\n"


@dataclass(frozen=True)
class Installed:
    """The program in an environment of its own, and the folder in which it is called."""

    environment: Path
    folder: Path
    port: int

    @property
    def home(self) -> Path:
        return self.folder / ".bulk"

    @property
    def variables(self) -> dict[str, str]:
        foreign = ("BULK", "DAGSTER", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return kept | {"BULK_UI_PORT": str(self.port)}

    def python(self, code: str) -> str:
        return self.run(self.environment / "bin" / "python", "-P", "-c", code)

    def bulk(self, *arguments: str) -> str:
        return self.run(self.environment / "bin" / "bulk", *arguments)

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=SLOW
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def answers(self) -> bool:
        """Whether the UI answers, and has loaded what we define."""
        query = "{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { __typename } } } } }"
        try:
            answer = httpx.post(f"http://127.0.0.1:{self.port}/graphql", json={"query": query}, timeout=30)
        except httpx.HTTPError:
            return False
        return "RepositoryLocation" in answer.text


def built(folder: Path, kind: str, target: Path) -> Path:
    """Build the project in this folder, with the packages that are here and no network, and return what was made."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target), "--target", kind]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    [made] = target.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as whoever has only the source archive builds it."""
    folder = tmp_path_factory.mktemp("build")
    with tarfile.open(built(CHECKOUT, "sdist", folder / "sdist")) as archive:
        archive.extractall(folder / "source", filter="data")
    [source] = (folder / "source").iterdir()
    return built(source, "wheel", folder / "wheel")


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Iterator[Installed]:
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    [packages] = environment.glob("lib/python*/site-packages")
    # The packages that we depend on are those of this environment. Python follows a .pth file in the new environment
    # only, so the one that leads to the checkout has no effect.
    (packages / "dependencies.pth").write_text("\n".join({sysconfig.get_path(each) for each in ("purelib", "platlib")}))
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    made = Installed(environment, tmp_path / "an empty folder", free_port())
    made.folder.mkdir()
    yield made
    if made.home.exists():
        processes.end(processes.identity(made.home), grace=0)
        until(lambda: not (made.home / "postgres" / "postmaster.pid").exists(), "the database has stopped", SLOW)


def test_the_wheel_is_the_same_from_the_checkout_and_from_the_source_archive(wheel: Path, tmp_path: Path) -> None:
    def contents(file: Path) -> dict[str, int]:
        with zipfile.ZipFile(file) as opened:
            return {each.filename: each.CRC for each in opened.infolist()}

    assert contents(built(CHECKOUT, "wheel", tmp_path)) == contents(wheel)


def test_the_wheel_works_alone(installed: Installed) -> None:
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
    assert "1 loaded" in installed.bulk("import", "mine.csv", "--resource", "users")

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
