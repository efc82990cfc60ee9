"""A dropped file is imported while all that works on it is killed: the table is exact in the end."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.up import processes
from bulk_pipelines_tests.scenes import drops, imports, installation
from bulk_pipelines_tests.scenes.drops import box_of
from bulk_pipelines_tests.scenes.imports import differences, found
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.today import one_of
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import LoginServer, S3Server

PATIENCE = 600.0
RECORDS = 200_000

QUICK = {"BULK_SWEEP_MINUTES": "1", "BULK_SILENT_SECONDS": "15"}
"""A run that is gone is missed after a quarter of a minute, and looked for every minute."""

KILLS = {
    "processes": (["run", "daemon", "code server"] * 2, ["run worker"]),
    "steps and database": (["step", "database", "step"], []),
}
"""The processes to be killed in any order, and the one that is killed last. A run is its worker with its steps, as when
their machine goes down. When the worker is killed alone, its steps go on, and could bring the work to its end before
another is there to be killed."""


def victims(place: Installation, what: str) -> list[psutil.Process]:
    """The processes to kill; none when there is no such thing just now."""
    mine = processes.marked(processes.identity(place.folder))
    match what:
        case "daemon":
            return [each for each in mine if "dagster._daemon" in command(each)]
        case "code server":
            return [each for each in mine if {"code-server", "api"} & set(command(each))]
        case "database":
            postmaster = place.server.postmaster()
            return [] if postmaster is None else [postmaster]
    # Children of the code server; when that was killed, of nobody here.
    others = {each.pid for each in mine if "api" not in command(each)}
    workers = [each for each in mine if "spawn_main" in " ".join(command(each)) and parent(each) not in others]
    match what:
        case "step":
            # The steps of a run are forked by a process that its worker has for that.
            return [each for worker in workers for each in below(worker) if parent(each) != worker.pid]
        case "run":
            return [*workers, *(each for worker in workers for each in below(worker))]
        case _:
            return workers


def below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


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


def answered(place: Installation, query: str) -> list[tuple[Any, ...]]:
    """Return the rows that the query finds, and none while the database is away."""
    try:
        return place.rows(query)
    except (Unavailable, psycopg.OperationalError):
        return []


def came_to(place: Installation, target: int, what: str) -> Callable[[], bool]:
    """Return a condition that kills the victims when the imports have come so far."""
    read = "SELECT coalesce(sum(read), 0)::int FROM import_count"
    return lambda: any(rows >= target for (rows,) in answered(place, read)) and killed(place, what)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("what_is_killed", one_of(KILLS))
def test_killed_in_the_middle_again_and_again(
    s3_server: S3Server, ftp_server: LoginServer, tmp_path: Path, chance: random.Random, what_is_killed: str
) -> None:
    source = tmp_path / "users.csv"
    expected = imports.user_file(source, RECORDS, chance)
    box = box_of("s3", s3_server.bucket())
    file = drops.write_drops_file(tmp_path / "drops.toml", [box], mode="insert", after="move")
    kills, last = KILLS[what_is_killed]
    order = [*chance.sample(kills, len(kills)), *last]
    targets = sorted(chance.randint(0, RECORDS * 2 // 3) for _ in order)
    variables = drops.settings_of(s3_server, ftp_server) | QUICK
    with installation.running(BULK_DROPS_FILE=str(file), **variables) as place:
        # So that there is a middle to be killed in: at full speed the whole file would be loaded in three seconds.
        with pool.single(place.server.url()) as connection:
            connection.execute(imports.SLOW_TABLE)
        box.drop("users.csv", source.read_bytes())
        unfinished = "SELECT count(*) FROM job WHERE finished_at IS NULL"
        for what, target in zip(order, targets, strict=True):
            until(came_to(place, target, what), f"{target} records are read, and there is a {what} to kill", PATIENCE)
            until(lambda: bool(answered(place, unfinished)), "the database answers", PATIENCE)
            assert answered(place, unfinished) in ([(1,)], []), "the import is over before all of it was killed"
        done = "SELECT status::text FROM file_drop"
        until(lambda: answered(place, done) == [("DONE",)], "the import is over and its file put away", PATIENCE)
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
