"""What the relay offers, against a slow oracle: all that wait, by urgency, as far as there is room."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch
from bulk_pipelines.engine.jobs.dispatch import DispatchLimits
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.today import examples

KINDS = ["a", "b", "c"]


class Waiting(NamedTuple):
    """A job as it is made; `state`: what became of it already."""

    kind: str
    owner: str
    priority: int
    state: str


states = st.sampled_from(["waits"] * 6 + ["at work", "offered", "offered long ago", "paused", "waits for another"])
jobs = st.lists(
    st.builds(Waiting, st.sampled_from([*KINDS, "foreign"]), st.sampled_from("uvwxyz"), st.integers(-2, 2), states),
    max_size=60,
)
limits = st.builds(DispatchLimits, st.integers(1, 6), st.integers(1, 6), st.integers(1, 12))

INSERT = """
INSERT INTO job (kind, owner, origin, request_hash, priority, status, started_at, run_wanted, offered_at, waits_for)
VALUES (%s, %s, 'api', '', %s, %s::job_status, %s, %s, now() - make_interval(secs => %s), %s)
RETURNING job_id, job_key
"""


@pytest.fixture(scope="module")
def pool(server: Any, template: str) -> Iterator[Engine]:
    with databases.fresh(server, template) as url:
        made = pools.connect(url, application="test")
        yield made
        made.dispose()


def expected(made: list[tuple[int, str, Waiting]], limit: DispatchLimits) -> list[str]:
    """Return the keys of the jobs that are to be offered, found in as few words as possible, by a look at every job."""
    at_work = [job for _, _, job in made if job.state in ("at work", "offered", "offered long ago")]
    kinds, owners = Counter(job.kind for job in at_work), Counter(job.owner for job in at_work)
    chosen: list[str] = []
    for _, key, job in sorted(made, key=lambda each: (-each[2].priority, each[0])):
        if len(chosen) == limit.in_one_pass or job.kind not in KINDS:
            continue
        if job.state == "offered long ago":
            chosen.append(key)
        elif job.state == "waits" and kinds[job.kind] < limit.of_kind and owners[job.owner] < limit.of_owner:
            kinds[job.kind] += 1
            owners[job.owner] += 1
            chosen.append(key)
    return chosen


@given(jobs, limits)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_what_is_offered(pool: Engine, given: list[Waiting], limit: DispatchLimits) -> None:
    with transaction(pool) as connection:
        connection.execute("TRUNCATE job CASCADE")
        another = connection.execute(INSERT, ["foreign", "q", 0, "SUBMITTED", None, True, None, []]).fetchone()
        assert another is not None
        made = []
        for job in given:
            values = [
                "PAUSED" if job.state == "paused" else "RUNNING" if job.state == "at work" else "SUBMITTED",
                "now" if job.state == "at work" else None,
                job.state != "at work",
                {"offered": 1, "offered long ago": 1_000}.get(job.state),
                [another[0]] if job.state == "waits for another" else [],
            ]
            row = connection.execute(INSERT, [job.kind, job.owner, job.priority, *values]).fetchone()
            assert row is not None
            made.append((*row, job))
    with transaction(pool) as connection:
        found = [offer.job_key for offer in dispatch.offers(connection, KINDS, limit)]
    assert found == expected(made, limit)
