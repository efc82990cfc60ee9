"""Looks at sources that are down or slow: they are left alone for longer, or cut short, and no other waits for them."""

import time
from collections.abc import Collection, Iterator

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.storage.contract import Page, Storage
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.inbox import Inbox


def test_a_source_that_is_down_is_left_alone_for_longer_each_time(inbox: Inbox, engine: Engine) -> None:
    inbox.drop("users.csv")

    def down() -> Storage:
        raise Unavailable("the server does not answer")

    waits = []
    for _ in range(3):
        looked = inbox.look(open_storage=down)
        assert "the server does not answer" in str(looked)
        assert "next look in" in str(inbox.look(open_storage=down))
        with transaction(engine) as connection:
            row = connection.execute(
                "SELECT extract(epoch FROM retry_at - looked_at)::float8 FROM drop_source"
            ).fetchone()
            assert row is not None
            waits.append(row[0])
            connection.execute("UPDATE drop_source SET retry_at = now()")
    assert waits == [5.0, 10.0, 20.0]
    assert inbox.look().taken == 1


def test_the_delay_begins_when_the_source_has_failed_to_answer(inbox: Inbox, engine: Engine) -> None:
    """The delay does not begin when the source was asked, or a server that hangs would be asked again at once."""

    def hanging() -> Storage:
        time.sleep(1.0)
        raise Unavailable("the server does not answer")

    inbox.look(open_storage=hanging)
    with transaction(engine) as connection:
        assert ledger.answering(connection, "inbox").wait_seconds > 4.5


def test_a_listing_that_takes_too_long_is_cut_short_and_loses_nothing(inbox: Inbox) -> None:
    inbox.drop("users.csv")
    ticks = iter(range(0, 10_000, 100))
    looked = inbox.look(clock=lambda: float(next(ticks)))
    assert looked.cut_short
    assert inbox.look().taken + looked.taken == 1


def test_a_look_without_time_for_a_second_listing_leaves_that_to_the_next_tick(inbox: Inbox) -> None:
    inbox.drop("users.csv")
    slept: list[float] = []
    inbox.between = slept.append
    inbox.set(settle_seconds=2.0)
    assert inbox.look(seconds=1.0).taken == 0
    assert slept == []
    inbox.look(seconds=3.0)
    assert slept == [2.0]


def test_a_long_listing_is_not_begun_again_only_to_be_cut_short(inbox: Inbox) -> None:
    """What comes late in it would not be seen by the second one, and never be taken."""
    inbox.drop("users.csv")
    now = 0.0

    class Slow(LocalStorage):
        def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
            nonlocal now
            now += 20.0
            yield from super().pages(pattern, aside)

    taken = [inbox.look(open_storage=lambda: Slow(inbox.folder), seconds=30.0, clock=lambda: now) for _ in range(2)]
    assert [looked.taken for looked in taken] == [0, 1]
    assert now == 40.0


def test_the_source_that_was_not_looked_at_for_longest_comes_first(inbox: Inbox, engine: Engine) -> None:
    def turns() -> list[str]:
        with transaction(engine) as connection:
            return ledger.longest_unseen_first(connection, ["a", "b", "c"])

    assert turns() == ["a", "b", "c"]
    for name in ("a", "c", "b"):
        inbox.set(name=name)
        inbox.look()
    assert turns() == ["a", "c", "b"]
