"""The clock by which leases and retries go is the database's. It may jump, as clocks of virtual machines do."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys
from bulk_pipelines_tests.scenes import databases

pytestmark = pytest.mark.long


class Clock:
    """The clock of a server, which somebody sets."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(0)

    def set(self, seconds: int) -> None:
        """Let it be so many seconds ahead of the real one."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.chmod(0o644)
        new.rename(self.file)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip("no libfaketime is installed here (Debian: apt-get install faketime)")
    with tempfile.TemporaryDirectory(prefix="bulk-clock-") as folder:
        Path(folder).chmod(0o755)  # the server is another user's
        made = Clock(Path(folder) / "offset")
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(made.file))
        monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
        monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        yield made


@pytest.fixture
def scene(
    binaries: Path, clock: Clock, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    server = Server(tmp_path_factory.mktemp("jumping") / "postgres", binaries)
    server.start()
    monkeypatch.delenv("LD_PRELOAD")  # the workers keep their own clock
    try:
        with databases.on_a_victim(server) as url:
            with pool.single(url) as connection:
                connection.execute((Path(__file__).parent / "tables.sql").read_text())
            engine = pool.connect(url, application="chaos test")
            yield Scene(server, url, engine, tmp_path_factory.mktemp("scene"))
            engine.dispose()
    finally:
        server.stop_immediately()


def offset(scene: Scene) -> float:
    """Return how many seconds the server's clock is ahead of ours."""
    with pool.transaction(scene.pool) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0]) - time.time()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("jumps", [(3600,), (-3600,), (3600, 0), (-86_400, 86_400)])
def test_a_clock_that_jumps_loses_and_doubles_nothing(scene: Scene, clock: Clock, jumps: tuple[int, ...]) -> None:
    work = items(150, seconds=0.02)
    job = scene.job("patient", work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire(2)
        for jump in jumps:
            scene.get_on(crew, job, 20)
            clock.set(jump)
            assert abs(offset(scene) - jump) < 60
        scene.finish(crew, job, 60)
    scene.check(job, keys(work))


@pytest.mark.timeout(300)
def test_a_killed_worker_s_items_are_rescued_when_a_clock_that_was_set_back_has_caught_up(
    scene: Scene, clock: Clock
) -> None:
    """Nobody can tell the killed worker from one that lives until the clock has caught up: its leases are good so
    long."""
    work = items(60, seconds=0.05)
    job = scene.job("one_by_one", work)
    with Crew(scene.url, job, scene.folder) as crew:
        (first,) = crew.hire(1)
        scene.get_on(crew, job, 10)
        first.kill()
        clock.set(-3600)
        assert abs(offset(scene) + 3600) < 60
        crew.members.clear()
        crew.hire(1)
        scene.get_on(crew, job, 10)
        clock.set(0)
        scene.finish(crew, job, 90)
    scene.check(job, keys(work))
