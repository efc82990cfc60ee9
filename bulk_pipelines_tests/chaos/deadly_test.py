"""The proxy by which other tests kill a process ends the talk with PostgreSQL exactly at the point."""

import psycopg
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.database_proxy import DatabaseProxy, Moment, Point

WRITE = "INSERT INTO told VALUES (%s)"
OTHERS = "SELECT query FROM pg_stat_activity WHERE application_name = 'told' AND state IS NOT NULL"
LAST = {Moment.BEFORE: "BEGIN", Moment.DONE: WRITE.replace("%s", "$1"), Moment.COMMITTED: "COMMIT"}
"""What the server has heard last from the client."""


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("prepared", [False, True])
def test_nothing_is_said_after_the_point(empty_database_url: str, moment: Moment, *, prepared: bool) -> None:
    """The second of three transactions comes to the point: the first is as ever, and of the third nothing is said."""
    with pool.single(empty_database_url) as beside:
        beside.execute("CREATE TABLE told (number int)")
        heard: list[str] = []

        def happen() -> None:
            heard.extend(row[0] for row in beside.execute(OTHERS))

        with DatabaseProxy(empty_database_url, Point("INTO told", moment, 2), happen) as proxy:
            client = pool.single(proxy.url, application="told")
            client.autocommit = False
            with pytest.raises(psycopg.OperationalError):
                for number in range(3):
                    client.execute(WRITE, [number], prepare=prepared)
                    client.commit()
            until(lambda: not beside.execute(OTHERS).fetchall(), "the server has noticed")
        numbers = [row[0] for row in beside.execute("SELECT number FROM told ORDER BY number")]
    assert not proxy.left
    assert heard == [LAST[moment]]
    assert numbers == ([0, 1] if moment is Moment.COMMITTED else [0])
