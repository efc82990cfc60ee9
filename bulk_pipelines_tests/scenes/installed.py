"""The wheel, built from the source archive, and installed into an environment that does not know the checkout."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.up import processes
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port

SLOW = 240.0


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

    def bulk(self, *arguments: str, code: int = 0) -> str:
        return self.run(self.environment / "bin" / "bulk", *arguments, code=code)

    def run(self, *command: str | Path, code: int = 0) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=SLOW, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
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
    """The wheel beside the packages of this environment, which stand for those that it depends on."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    [packages] = environment.glob("lib/python*/site-packages")
    # Python follows a .pth file in the new environment only, so the one that leads to the checkout has no effect.
    (packages / "dependencies.pth").write_text("\n".join({sysconfig.get_path(each) for each in ("purelib", "platlib")}))
    install(environment, "--no-deps", "--no-index", wheel)
    yield from in_use(environment, tmp_path)


@pytest.fixture
def alone(wheel: Path, tmp_path: Path) -> Iterator[Installed]:
    """The wheel in an environment that has nothing else but what pip fetches for it, in the versions of the lock."""
    environment, versions = tmp_path / "environment", tmp_path / "versions"
    venv.create(environment, symlinks=True)
    locked = (CHECKOUT / "requirements.lock").read_text().splitlines()
    versions.write_text("\n".join(line.rstrip(" \\") for line in locked if line and not line.startswith((" ", "#"))))
    install(environment, "--constraint", versions, wheel)
    yield from in_use(environment, tmp_path)


def install(environment: Path, *what: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--disable-pip-version-check", *what], check=True)


def in_use(environment: Path, folder: Path) -> Iterator[Installed]:
    """Yield the installation, and stop afterwards what it has started."""
    made = Installed(environment, folder / "an empty folder", free_port())
    made.folder.mkdir()
    yield made
    if made.home.exists():
        processes.end(processes.identity(made.home), grace=0)
        until(lambda: not (made.home / "postgres" / "postmaster.pid").exists(), "the database has stopped", SLOW)
