"""Migrating from many processes at once, and from processes that are killed in the middle."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bulk_pipelines.database import migrations, pool
from bulk_pipelines_tests.scenes.waiting import until

GATE = 42

MIGRATE = """
import sys
from pathlib import Path
from bulk_pipelines.database import migrations
print(*migrations.apply(sys.argv[1], Path(sys.argv[2])))
"""


def migrating(url: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATE, url, str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def parts(tmp_path: Path) -> Path:
    """Migrations that stop at a gate in their middle, while a test holds it: half of one would be seen."""
    for number in (1, 2, 3):
        (tmp_path / f"{number:04}_part.sql").write_text(
            f"CREATE TABLE part_{number} (n int); SELECT pg_advisory_xact_lock({GATE});"
            f" INSERT INTO part_{number} VALUES (1);"
        )
    return tmp_path


@contextmanager
def gate_shut(url: str) -> Iterator[None]:
    with pool.single(url) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [GATE])
        yield


def running(url: str, text: str) -> int:
    """How many sessions are in such a statement."""
    with pool.single(url) as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE %s",
            [f"%{text}%"],
        ).fetchone() or (0,)
    return int(count)


def test_many_processes_at_once_apply_everything_once(empty_database_url: str, tmp_path: Path) -> None:
    directory = parts(tmp_path)
    with gate_shut(empty_database_url):
        processes = [migrating(empty_database_url, directory) for _ in range(4)]
        until(lambda: running(empty_database_url, "pg_advisory_lock") == 3, "one works and three wait", 60)
    answers = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, answers
    applied = [name for out, _ in answers for name in out.split()]
    assert sorted(applied) == ["0001_part", "0002_part", "0003_part"]


def test_a_killed_process_leaves_no_half_migration_and_blocks_nobody(empty_database_url: str, tmp_path: Path) -> None:
    directory = parts(tmp_path)
    for _ in range(3):
        with gate_shut(empty_database_url):
            process = migrating(empty_database_url, directory)
            until(lambda: running(empty_database_url, "pg_advisory_xact_lock") == 1, "a migration is in its middle", 60)
            process.kill()
            process.communicate()
        until(lambda: running(empty_database_url, "pg_advisory") == 0, "the server has seen that it is dead")
        with pool.single(empty_database_url) as connection:
            assert connection.execute("SELECT to_regclass('part_1')").fetchone() == (None,)
    assert migrations.apply(empty_database_url, directory) == ["0001_part", "0002_part", "0003_part"]


def test_one_waits_for_the_other_and_takes_over_when_that_one_dies(empty_database_url: str, tmp_path: Path) -> None:
    directory = parts(tmp_path)
    with gate_shut(empty_database_url):
        first = migrating(empty_database_url, directory)
        until(lambda: running(empty_database_url, "pg_advisory_xact_lock") == 1, "the first is in a migration", 60)
        second = migrating(empty_database_url, directory)
        until(lambda: running(empty_database_url, "pg_advisory_lock") == 1, "the second waits", 60)
        first.kill()
        first.communicate()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert out.split() == ["0001_part", "0002_part", "0003_part"]
