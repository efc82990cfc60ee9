"""The integration suite again, in part, over databases whose sessions are as some people have them."""

import os
import subprocess
import sys

import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.sessions import find_pgbouncer
from bulk_pipelines_tests.scenes.today import one_of

FOLDER = CHECKOUT / "bulk_pipelines_tests" / "integration"
PARTS = (
    "engine",
    "exports",
    "imports",
    "distribution",
    "drops",
    "maintenance",
    "database/pool_test.py",
    "status_test.py",
)

# It looks at what each server process waits for, and PgBouncer reads ahead of its client.
BY_THE_WAIT_OF_A_SERVER = "not test_the_parts_are_read_at_the_same_time"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sessions", one_of(["turned", "pgbouncer"]))
def test_the_suite_holds(sessions: str) -> None:
    if sessions == "pgbouncer":
        find_pgbouncer()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "logical", "-p", "no:cacheprovider", "-m", "not long"),
            *("-k", BY_THE_WAIT_OF_A_SERVER, *(str(FOLDER / part) for part in PARTS)),
        ],
        env=os.environ | {"SESSIONS": sessions},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:])
