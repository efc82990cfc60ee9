"""A dropped file is imported while run worker, daemon and code server are killed: the table is exact in the end."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.up import processes
from bulk_pipelines_tests import drop_scene, import_scene, installation
from bulk_pipelines_tests.drop_scene import box_of
from bulk_pipelines_tests.import_scene import differences, found
from bulk_pipelines_tests.installation import Installation
from bulk_pipelines_tests.servers import LoginServer, S3Server
from bulk_pipelines_tests.waiting import until

PATIENCE = 600.0
RECORDS = 200_000

SLOW_TABLE = """
CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.0003 * (SELECT count(*) FROM added)); RETURN NULL; END $$;
CREATE TRIGGER be_slow AFTER INSERT ON users REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION be_slow()
"""
"""So that there is a middle to be killed in: at full speed the whole file would be loaded in three seconds."""

KILLS = ["run"] * 4 + ["daemon"] * 3 + ["code server"] * 3
"""A run is its worker with its steps, as when their machine goes down. The eleventh kill takes the worker
alone; its steps go on without it, and could bring the work to its end before a next one is there to be killed."""
LAST_KILL = "run worker"


def victims(place: Installation, what: str) -> list[psutil.Process]:
    """The processes to kill; none when there is no such thing just now."""
    mine = processes.marked(place.folder)
    match what:
        case "daemon":
            return [each for each in mine if "dagster._daemon" in command(each)]
        case "code server":
            return [each for each in mine if {"code-server", "api"} & set(command(each))]
        case _:
            servers = {each.pid for each in mine if "api" in command(each)}
            workers = [each for each in mine if parent(each) in servers and "spawn_main" in " ".join(command(each))]
            return [*workers, *steps_of(workers)] if what == "run" else workers


def steps_of(workers: list[psutil.Process]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for worker in workers:
        with suppress(psutil.Error):
            found += worker.children(recursive=True)
    return found


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def killed(place: Installation, what: str) -> bool:
    living = victims(place, what)
    for process in living:
        process.kill()
    psutil.wait_procs(living, timeout=10)
    return bool(living)


def read(place: Installation) -> int:
    rows = place.rows("SELECT coalesce(sum(read), 0)::int FROM import_count")
    return int(rows[0][0])


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_run_worker_daemon_and_code_server_are_killed_in_the_middle_again_and_again(
    s3_server: S3Server, ftp_server: LoginServer, tmp_path: Path, chance: random.Random
) -> None:
    source = tmp_path / "users.csv"
    expected = import_scene.user_file(source, RECORDS, chance)
    box = box_of("s3", s3_server.bucket())
    file = drop_scene.write_drops_file(tmp_path / "drops.toml", [box], mode="insert", after="move")
    kills = [*chance.sample(KILLS, len(KILLS)), LAST_KILL]
    targets = sorted(chance.randint(0, RECORDS * 2 // 3) for _ in kills)
    variables = drop_scene.settings_of(s3_server, ftp_server) | {"BULK_SWEEP_MINUTES": "1"}
    with installation.running(BULK_DROPS_FILE=str(file), **variables) as place:
        with pool.single(place.server.url()) as connection:
            connection.execute(SLOW_TABLE)
        box.drop("users.csv", source.read_bytes())
        for what, target in zip(kills, targets, strict=True):
            until(came_to(place, target, what), f"{target} records are read, and there is a {what} to kill", PATIENCE)
            assert place.rows("SELECT count(*) FROM job WHERE finished_at IS NOT NULL") == [(0,)]
        done = "SELECT status::text FROM file_drop"
        until(lambda: place.rows(done) == [("DONE",)], "the import is over and its file put away", PATIENCE)
        engine = pool.connect(place.server.url())
        with transaction(engine) as connection:
            (key,) = [row[0] for row in connection.execute("SELECT job_key FROM job").fetchall()]
            job = jobs.find(connection, key)
        assert job.status is JobState.COMPLETED_WITH_ERRORS, job.last_error
        assert differences(expected, found(engine, job)) == []
        assert job.result is not None
        assert (job.result["read"], job.result["waiting"], job.result["unprocessed"]) == (RECORDS, 0, 0)
        assert job.result["read"] == job.result["loaded"] + job.result["rejected"]
        engine.dispose()


def came_to(place: Installation, target: int, what: str) -> Callable[[], bool]:
    """Kills when it has come so far."""
    return lambda: read(place) >= target and killed(place, what)
