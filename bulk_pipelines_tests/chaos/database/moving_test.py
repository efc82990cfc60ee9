"""Moving what an older version has made into our schema, by a process that is killed in the middle of it."""

import subprocess
import sys
from pathlib import Path

from bulk_pipelines.database import migrations, pool
from bulk_pipelines_tests.scenes import former
from bulk_pipelines_tests.scenes.waiting import until

MIGRATE = "import sys; from bulk_pipelines.database import migrations; print(*migrations.apply(sys.argv[1]))"
STANDING = """
SELECT n.nspname, count(*), count(*) FILTER (WHERE relname IN ('job', 'job_item', 'rejected_row', '_yoyo_migration'))
FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE n.nspname IN ('public', 'bulk') AND relkind IN ('r', 'S') GROUP BY 1 ORDER BY 1
"""
STUCK = """
SELECT count(*) FROM pg_stat_activity AS a JOIN pg_locks AS l ON l.pid = a.pid AND NOT l.granted
WHERE a.datname = current_database() AND a.query LIKE 'ALTER TABLE%' AND l.locktype = 'relation'
"""


def test_a_killed_move_has_moved_nothing(empty_database_url: str, tmp_path: Path) -> None:
    former.made_by_the_last_version(empty_database_url, tmp_path)
    with pool.single(empty_database_url) as look:
        look.execute("INSERT INTO job (kind, owner, origin, request_hash) VALUES ('work', 'me', 'cli', '')")
        before = look.execute(STANDING).fetchall()
        # Others read the last tables to be moved, so the move waits when it has moved all the others.
        with pool.single(empty_database_url) as other, other.transaction():
            other.execute("SELECT * FROM review_decision")
            process = subprocess.Popen([sys.executable, "-c", MIGRATE, empty_database_url], stderr=subprocess.PIPE)
            until(lambda: look.execute(STUCK).fetchone() == (1,), "the move has come to a table that others read", 60)
            process.kill()
            process.communicate()
        until(
            lambda: (
                look.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bulk migrate'"
                    " AND datname = current_database()"
                ).fetchone()
                == (0,)
            ),
            "the server has seen that it is dead",
            60,
        )
        assert look.execute(STANDING).fetchall() == before
        assert before[0][2] == 4
        applied = migrations.apply(empty_database_url)
        assert min(applied)[:4] > former.LAST
        assert look.execute("SELECT kind FROM bulk.job").fetchall() == [("work",)]
        assert [row[0] for row in look.execute(STANDING).fetchall() if row[2]] == ["bulk"]
