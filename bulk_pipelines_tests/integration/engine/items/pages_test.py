"""Pages of items: every row once while nothing changes, none lost while everything does."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.items import leases, pages
from bulk_pipelines.engine.items.pages import ItemRow, Page, Wanted
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.outcomes import Bury, Done, RetryLater
from bulk_pipelines.engine.states import OPEN_ITEMS, ItemState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines_tests.scenes.engine_jobs import claimed, keys, kind, rows, running, settled, submitted


def page(
    pool: Engine, job: Job, size: int = 100, after: str | None = None, statuses: Iterable[str] = OPEN_ITEMS
) -> Page:
    with transaction(pool) as connection:
        return pages.of_job(connection, job.job_key, statuses=statuses, size=size, after=after)


def of_owner(
    pool: Engine, owner: str, size: int = 100, after: str | None = None, statuses: Iterable[str] = OPEN_ITEMS
) -> Page:
    with transaction(pool) as connection:
        return pages.of_all(connection, Wanted(owner), statuses=statuses, size=size, after=after)


def walk(pool: Engine, job: Job, size: int, statuses: Iterable[str] = OPEN_ITEMS) -> Iterator[list[ItemRow]]:
    after = None
    while True:
        each = page(pool, job, size, after, statuses)
        yield each.items
        if each.after is None:
            return
        after = each.after


@pytest.mark.parametrize("size", [1, 3, 10, 29, 30, 31, 1_000])
def test_every_row_once(pool: Engine, size: int) -> None:
    """The pages show each open item once, although many were written at the same moment."""
    job = running(pool, 30)
    settled(pool, job, claimed(pool, job, 12), RetryLater("x", after=1_000))
    settled(pool, job, claimed(pool, job, 5), Done({"x": 1}))
    claimed(pool, job, 4)
    found = list(walk(pool, job, size))
    shown = [item for items in found for item in items]
    assert len(shown) == 25
    assert len({item.item_id for item in shown}) == 25
    assert [(item.updated_at, item.item_id) for item in shown] == sorted(
        (item.updated_at, item.item_id) for item in shown
    )
    assert [len(items) for items in found[:-1]] == [size] * (len(found) - 1)
    wanted = {key for key, row in rows(pool, job).items() if row.status in OPEN_ITEMS}
    assert {item.item_key for item in shown} == wanted


def test_what_is_shown_of_an_item(pool: Engine) -> None:
    deep = {"name": "é" * 500, "n": 7, "list": [1, 2], "none": None, "object": {"hidden": 1}, "more": 1, "fifth": 1}
    job = running(pool, [("k", deep)])
    (lease,) = claimed(pool, job, owner="w1")
    (item,) = page(pool, job).items
    assert (item.job_key, item.item_key, item.kind, item.status) == (job.job_key, "k", "work", "RUNNING")
    assert (item.attempt_count, item.lease_owner) == (1, "w1")
    assert item.lease_until is not None
    assert item.input_summary is not None
    assert len(item.input_summary) < 300, "a glance, not the whole"
    assert "n=7" in item.input_summary
    assert "hidden" not in item.input_summary
    settled(pool, job, [lease], Bury("bad"))
    (item,) = page(pool, job, statuses=[ItemState.DLQ]).items
    assert (item.status, item.error_class, item.error_message, item.lease_until) == ("DLQ", "permanent", "bad", None)


def test_chosen_statuses(pool: Engine) -> None:
    job = running(pool, 6)
    settled(pool, job, claimed(pool, job, 2), Bury("bad"))
    settled(pool, job, claimed(pool, job, 1), Done())
    assert [item.status for item in page(pool, job, statuses=["DLQ", "SUCCEEDED"]).items] == ["DLQ", "DLQ", "SUCCEEDED"]
    assert page(pool, job, statuses=["CANCELLED"]) == Page([], None)
    assert len(page(pool, job, statuses=list(ItemState)).items) == 6
    assert len(page(pool, job, statuses=["PENDING", "PENDING"]).items) == 3


def test_the_last_page_may_be_full(pool: Engine) -> None:
    job = running(pool, 4)
    first = page(pool, job, 2)
    second = page(pool, job, 2, first.after)
    assert second.after is not None
    assert page(pool, job, 2, second.after) == Page([], None)


def test_over_all_jobs_of_an_owner(pool: Engine) -> None:
    mine = [submitted(pool, 7, owner="of many"), submitted(pool, 5, owner="of many")]
    submitted(pool, 5, owner="of few")
    shown: list[ItemRow] = []
    after = None
    while True:
        each = of_owner(pool, "of many", 5, after)
        shown += each.items
        if each.after is None:
            break
        after = each.after
    assert [(item.job_key, item.item_key) for item in shown] == [
        *((mine[0].job_key, key) for key in keys(7)),
        *((mine[1].job_key, key) for key in keys(5)),
    ]
    assert of_owner(pool, "of none") == Page([], None)


def test_a_cursor_is_good_for_its_listing_only(pool: Engine) -> None:
    job, other = submitted(pool, 5, owner="one"), submitted(pool, 5, owner="two")
    after = page(pool, job, 2).after
    assert after is not None
    assert page(pool, job, 2, after, ["RUNNING", "RETRY_WAIT", "PENDING"]).items, (
        "the order of statuses does not matter"
    )
    assert page(pool, job, 3, after).items, "nor does the size of the pages"
    of_owners = of_owner(pool, "one", 2).after
    elsewhere: list[Callable[[], Page]] = [
        lambda: page(pool, other, 2, after),
        lambda: page(pool, job, 2, after, ["PENDING"]),
        lambda: of_owner(pool, "one", 2, after),
        lambda: page(pool, job, 2, of_owners),
        lambda: of_owner(pool, "two", 2, of_owners),
    ]
    for refused in elsewhere:
        with pytest.raises(InvalidInput, match="after: is not a cursor of this listing"):
            refused()


def test_a_cursor_crosses_time_zones(pool: Engine) -> None:
    job = submitted(pool, 20)
    after = None
    shown = []
    for zone in ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Kiritimati"):
        with transaction(pool) as connection:
            connection.execute("SELECT set_config('TimeZone', %s, true)", [zone])
            each = pages.of_job(connection, job.job_key, size=5, after=after)
        shown += [item.item_key for item in each.items]
        after = each.after
    assert shown == keys(20)


def test_an_unknown_job_is_told(pool: Engine) -> None:
    with pytest.raises(UnknownJob), transaction(pool) as connection:
        pages.of_job(connection, "J20200101_000001")


# While things change.


def test_a_row_that_changes_moves_on_and_is_met_again(pool: Engine) -> None:
    job = running(pool, 6)
    first = page(pool, job, 3)
    taken = claimed(pool, job, 1)
    rest = page(pool, job, 100, first.after)
    assert [item.item_key for item in first.items] == keys(6)[:3]
    assert [(item.item_key, item.status) for item in rest.items] == [
        *((key, "PENDING") for key in keys(6)[3:]),
        (taken[0].item_key, "RUNNING"),
    ]


def test_a_row_that_changes_before_it_is_shown_is_still_ahead(pool: Engine) -> None:
    job = running(pool, 6)
    first = page(pool, job, 3)
    claimed(pool, job, 6)
    assert {item.item_key for item in page(pool, job, 100, first.after).items} == set(keys(6))


def test_a_change_that_is_committed_late_hides_nothing(pool: Engine) -> None:
    """The transaction of the change began before the reader, whose pages have been past that time when it commits."""
    job = running(pool, 6)
    with transaction(pool) as connection:
        connection.execute("SELECT now()")
        newer = running(pool, 3, owner="somebody else")
        first = page(pool, job, 3)
        leases.claim(connection, job.job_id, owner="slow", most=6, lease_seconds=60)
        second = page(pool, job, 3, first.after)
    third = page(pool, job, 3, second.after)
    shown = {item.item_key for each in (first, second, third) for item in each.items}
    assert shown == set(keys(6))
    jobs.cancel(pool, newer.job_key)


# Over all jobs, and in the order of the source.


def every(pool: Engine, wanted: Wanted, size: int, statuses: Iterable[str] = OPEN_ITEMS) -> list[ItemRow]:
    shown: list[ItemRow] = []
    after = None
    while True:
        with transaction(pool) as connection:
            each = pages.of_all(connection, wanted, statuses=statuses, size=size, after=after)
        shown += each.items
        if each.after is None:
            return shown
        after = each.after


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_the_items_of_all_owners_and_kinds(engine: Engine, size: int) -> None:
    """The pages show what a plain query of the same rows finds, also when owners and kinds are more than the rows of a
    page."""
    pool = engine  # a database without the jobs of other tests
    kinds = Kinds([kind(), replace(kind(), name="echo")])
    made = [
        running(pool, 4, owner=f"owner{number % 5}", kinds=kinds, kind=("echo", "work")[number % 2])
        for number in range(10)
    ]
    for job in made[::3]:
        settled(pool, job, claimed(pool, job, 1), Bury("bad"))
        settled(pool, job, claimed(pool, job, 1), RetryLater("later", after=1_000))
    for job in made[::4]:
        claimed(pool, job, 1)
    there = {row.item_id: (job, row) for job in made for row in rows(pool, job).values()}
    for owner in (None, "owner1", "nobody"):
        for named in (None, "echo", "none"):
            for statuses in (OPEN_ITEMS, ("RUNNING",), ("DLQ", "PENDING"), tuple(ItemState)):
                shown = every(pool, Wanted(owner, named), size, statuses)
                expected = [
                    (row.updated_at, item_id)
                    for item_id, (job, row) in there.items()
                    if owner in (None, job.owner) and named in (None, job.kind) and row.status in statuses
                ]
                assert [(item.updated_at, item.item_id) for item in shown] == sorted(expected)


def test_items_that_changed_within_some_time(pool: Engine) -> None:
    job = running(pool, 9, owner="of times")
    for _ in range(3):
        settled(pool, job, claimed(pool, job, 2), RetryLater("later", after=1_000))
    held = claimed(pool, job, 1)
    moments = sorted(row.updated_at for row in rows(pool, job).values())
    for since in (None, *moments):
        for until in (None, *moments):
            expected = [each for each in moments if (not since or each >= since) and (not until or each < until)]
            wanted = Wanted("of times", since=since, until=until)
            assert [item.updated_at for item in every(pool, wanted, 2)] == expected
            with transaction(pool) as connection:
                found = pages.of_job(connection, job.job_key, since=since, until=until)
            assert [item.updated_at for item in found.items] == expected
    assert [item.lease_owner for item in every(pool, Wanted("of times"), 5, ["RUNNING"])] == [
        row.lease_owner for row in rows(pool, job).values() if row.item_id == held[0].item_id
    ]


def test_a_glance_at_the_input(pool: Engine) -> None:
    running(
        pool,
        [("a", {"Title": "Lamp", "BRAND": 7, "sku": None}), ("b", {"title": {"x": 1}, "sku": "é" * 500, "TITLE": "B"})],
        owner="of glances",
    )
    first, second = every(pool, Wanted("of glances"), 10)
    assert (first.title, first.brand, first.sku) == ("Lamp", "7", None)
    assert (second.title, second.brand, second.sku) == ("B", None, "é" * 200)


@pytest.mark.parametrize("size", [1, 4, 10, 11])
def test_the_order_of_the_source(pool: Engine, size: int) -> None:
    job = running(pool, 10)
    settled(pool, job, claimed(pool, job, 3), Bury("bad"))
    claimed(pool, job, 2)
    shown: list[ItemRow] = []
    after = None
    while True:
        with transaction(pool) as connection:
            each = pages.in_order(connection, job.job_key, size=size, after=after)
        shown += each.items
        after = each.after
        if after is None:
            break
    assert [item.item_key for item in shown] == keys(10)
    assert {item.item_key: item.status for item in shown} == {key: row.status for key, row in rows(pool, job).items()}
    first = page(pool, job, 1).after
    with pytest.raises(InvalidInput, match="not a cursor of this listing"), transaction(pool) as connection:
        pages.in_order(connection, job.job_key, after=first)


def test_an_items_pages_belong_to_the_jobs_owner(pool: Engine) -> None:
    job = running(pool, 2, owner="one")
    for ask in (pages.of_job, pages.in_order):
        with pytest.raises(UnknownJob), transaction(pool) as connection:
            ask(connection, job.job_key, owner="two")
        with transaction(pool) as connection:
            assert len(ask(connection, job.job_key, owner="one").items) == 2
