"""Migrating from many processes at once, and from processes that are killed in the middle."""

import subprocess
import sys
from pathlib import Path

from bulk_pipelines.database import migrations, pool
from bulk_pipelines_tests.waiting import until

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


def slow(tmp_path: Path, seconds: float) -> Path:
    """Migrations that take a while, each in two statements: half of one would be seen."""
    for number in (1, 2, 3):
        (tmp_path / f"{number:04}_part.sql").write_text(
            f"CREATE TABLE part_{number} (n int); SELECT pg_sleep({seconds}); INSERT INTO part_{number} VALUES (1);"
        )
    return tmp_path


def running(url: str, text: str) -> bool:
    with pool.single(url) as connection:
        found = connection.execute(
            "SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE %s",
            [f"%{text}%"],
        )
        return found.fetchone() is not None


def test_many_processes_at_once_apply_everything_once(empty_database_url: str, tmp_path: Path) -> None:
    directory = slow(tmp_path, 0.1)
    processes = [migrating(empty_database_url, directory) for _ in range(4)]
    answers = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, answers
    applied = [name for out, _ in answers for name in out.split()]
    assert sorted(applied) == ["0001_part", "0002_part", "0003_part"]


def test_a_killed_process_leaves_no_half_migration_and_blocks_nobody(empty_database_url: str, tmp_path: Path) -> None:
    directory = slow(tmp_path, 0.6)
    for _ in range(3):
        process = migrating(empty_database_url, directory)
        until(lambda: running(empty_database_url, "pg_sleep"), "the migration is in its middle")
        process.kill()
        process.communicate()
    assert migrations.apply(empty_database_url, directory)[-1] == "0003_part"
    with pool.single(empty_database_url) as connection:
        for number in (1, 2, 3):
            assert connection.execute(f"SELECT count(*) FROM part_{number}").fetchone() == (1,)


def test_one_waits_for_the_other_and_takes_over_when_that_one_dies(empty_database_url: str, tmp_path: Path) -> None:
    directory = slow(tmp_path, 1)
    first = migrating(empty_database_url, directory)
    until(lambda: running(empty_database_url, "pg_sleep"), "the first is in the middle of a migration")
    second = migrating(empty_database_url, directory)
    until(lambda: running(empty_database_url, "pg_advisory_lock"), "the second waits")
    first.kill()
    first.communicate()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert out.split() == ["0001_part", "0002_part", "0003_part"]
