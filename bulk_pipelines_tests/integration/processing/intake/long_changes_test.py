"""Tables that somebody is changing for long, or wants to change while they are read."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from bulk_pipelines.database import holding
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.matching.references import Columns
from bulk_pipelines.processing.references import rows
from bulk_pipelines.processing.references.declaration import Reference
from bulk_pipelines_tests.scenes.export_files import watching
from bulk_pipelines_tests.scenes.listening import before, listening
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.waiting import until

WAITING = "SELECT FROM pg_locks WHERE relation = 'public.wares'::regclass AND NOT granted"
HELD = "SELECT FROM pg_locks WHERE relation = 'public.wares'::regclass AND mode = 'AccessShareLock' AND granted"
# PostgreSQL calls it while it plans a query: then the tables of the query are locked.
UNTIL_SOMEBODY_WAITS = f"""
CREATE FUNCTION public.somebody_waits() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    FOR number IN 1..500 LOOP
        PERFORM FROM ({WAITING}) AS found;
        IF found THEN RETURN true; END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RAISE 'nobody waits';
END
$$
"""


@pytest.fixture(autouse=True)
def wares(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "PATIENCE", "SET LOCAL lock_timeout = '300ms'")
    scene.shop("http://127.0.0.1:9/")
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.wares (title text)")
        connection.execute("INSERT INTO wares VALUES ('lamp')")


@pytest.fixture
def stranger(scene: Scene) -> Iterator[psycopg.Connection[Any]]:
    with watching(scene.pool) as connection:
        yield connection


def started(scene: Scene, query: str) -> Job:
    job = scene.submitted(query=query)
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    return job


def test_a_query_of_a_table_that_is_locked_for_long_is_planned_by_a_later_try(
    scene: Scene, stranger: psycopg.Connection[Any]
) -> None:
    job = started(scene, "SELECT title FROM wares")
    with stranger.transaction():
        stranger.execute("LOCK TABLE wares IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="lock timeout"):
            planning.plan(scene.pool, job)
    planning.plan(scene.pool, job)
    assert scene.inputs(job) == [{"title": "lamp"}]


def test_a_query_and_a_change_that_come_between_each_other_do_not_wait_for_long(
    scene: Scene, stranger: psycopg.Connection[Any]
) -> None:
    with transaction(scene.pool) as connection:
        connection.execute(UNTIL_SOMEBODY_WAITS.encode())
    job = started(scene, "SELECT title FROM wares WHERE public.somebody_waits()")

    def change() -> None:
        with watching(scene.pool) as looker:
            until(lambda: looker.execute(HELD).fetchone() is not None, "the query holds the table")
        stranger.execute("TRUNCATE wares")

    with ThreadPoolExecutor(2) as executor:
        changing = executor.submit(change)
        assert_given_up(stranger, executor.submit(planning.plan, scene.pool, job).result, Unavailable)
        changing.result(timeout=10)


def test_a_reference_and_a_change_that_come_between_each_other_do_not_wait_for_long(
    scene: Scene, stranger: psycopg.Connection[Any]
) -> None:
    """A reference that is neither a table nor a view is held by one session and read by another."""
    stranger.execute("CREATE MATERIALIZED VIEW public.stored AS SELECT title FROM wares")
    reference = Reference("stored", "", Columns(("title",), "title"))

    def change() -> None:
        changing.append(executor.submit(stranger.execute, "REFRESH MATERIALIZED VIEW stored"))
        with watching(scene.pool) as looker:
            waiting = WAITING.replace("public.wares", "public.stored")
            until(lambda: looker.execute(waiting).fetchone() is not None, "the change waits for who holds the view")

    changing: list[Any] = []
    with ThreadPoolExecutor(2) as executor, listening(scene.pool, before("LIMIT 0", change)) as pool:
        reading = executor.submit(rows.check, pool, reference, [])
        assert_given_up(stranger, reading.result, psycopg.errors.LockNotAvailable)
        changing[0].result(timeout=10)


def test_a_reference_is_read_in_the_session_that_holds_it(scene: Scene, stranger: psycopg.Connection[Any]) -> None:
    """A change that comes after the lock waits for the reader; the reader waits for nobody."""
    reference = Reference("wares", "", Columns(("title",), "title"))

    def change() -> None:
        changing.append(executor.submit(stranger.execute, "TRUNCATE wares"))
        with watching(scene.pool) as looker:
            until(lambda: looker.execute(WAITING).fetchone() is not None, "the change waits for who holds the table")

    changing: list[Any] = []
    with ThreadPoolExecutor(1) as executor, listening(scene.pool, before("WHERE", change)) as pool:
        assert list(rows.found(pool, reference, ["lamp"], [])) == ["lamp"]
        changing[0].result(timeout=10)
    assert rows.found(scene.pool, reference, ["lamp"], []) == {}


def assert_given_up(
    stranger: psycopg.Connection[Any], result: Callable[[float], object], error: type[Exception]
) -> None:
    try:
        with pytest.raises(error, match="lock timeout"):
            result(10)
    except BaseException:
        stranger.cancel_safe()
        raise
