"""What users get wrong: one clear line that names the field, and nothing written."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.jobs import jobs, redrive, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Request
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines_tests.scenes.engine_jobs import WORK, running

GOOD = Request("work", "me", {"a": 1})

TABLES = ("job", "job_item", "rate_limit", "batch_step")


def everything(pool: Engine) -> list[object]:
    """All there is, by the transactions that wrote it."""
    with transaction(pool) as connection:
        return [connection.execute(f"SELECT xmin, * FROM {table} ORDER BY 2, 3").fetchall() for table in TABLES]


@pytest.fixture(scope="module")
def job(pool: Engine) -> Job:
    return running(pool, 3)


@pytest.fixture
def untouched(pool: Engine, job: Job) -> Iterator[None]:
    before = everything(pool)
    yield
    assert everything(pool) == before


def refused(field: str, act: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as caught:
        act()
    assert caught.value.field == field
    said = str(caught.value)
    assert said.startswith(f"{field}: ")
    assert "\n" not in said
    assert len(said) < 500
    said.encode()
    return said


def submit(pool: Engine, **changed: Any) -> object:
    with transaction(pool) as connection:
        return submission.submit(connection, WORK, replace(GOOD, **changed))


MEGABYTES = 10 * 1024 * 1024

REQUESTS: list[tuple[str, Any]] = [
    ("kind", "wrok"),
    ("kind", ""),
    ("kind", None),
    ("kind", ["work"]),
    ("owner", ""),
    ("owner", "a\0b"),
    ("owner", "\ud83d"),
    ("owner", "x" * 1_001),
    ("owner", None),
    ("params", []),
    ("params", [("a", 1)]),
    ("params", "text"),
    ("params", None),
    ("params", 3),
    ("params", {"a": float("nan")}),
    ("params", {"a": float("-inf")}),
    ("params", {"a": "b\0c"}),
    ("params", {"a\0": 1}),
    ("params", {"a": ["\udc00"]}),
    ("params", {1: "a"}),
    ("params", {"a": b"bytes"}),
    ("params", {"a": "x" * MEGABYTES}),
    ("origin", "email"),
    ("origin", None),
    ("origin", ["api"]),
    ("idempotency_key", ""),
    ("idempotency_key", "k\0"),
    ("idempotency_key", "k" * 1_001),
    ("idempotency_key", "😀" * 251),
    ("idempotency_key", 7),
    ("request_id", "r" * 1_001),
    ("request_id", "\udfff"),
    ("trace_parent", ""),
    ("trace_parent", "00-abc-def-01"),
    ("trace_parent", "00-" + "A" * 32 + "-" + "1" * 16 + "-01"),
    ("trace_parent", "00-" + "0" * 32 + "-" + "1" * 16 + "-01"),
    ("trace_parent", "00-" + "1" * 32 + "-" + "0" * 16 + "-01"),
    ("trace_parent", "ff-" + "1" * 32 + "-" + "1" * 16 + "-01"),
    ("trace_parent", "00-" + "1" * 32 + "-" + "1" * 16 + "-01\n"),
    ("trace_parent", 7),
]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("field", "value"), REQUESTS, ids=lambda value: repr(value)[:40].encode("ascii", "replace"))
def test_a_request(pool: Engine, field: str, value: object) -> None:
    refused(field, lambda: submit(pool, **{field: value}))


def test_an_unknown_kind_is_told_what_there_is(pool: Engine) -> None:
    assert refused("kind", lambda: submit(pool, kind="wrok")) == "kind: 'wrok' is not a kind of job; known: work"


def test_the_longest_texts_are_stored(pool: Engine) -> None:
    """Texts that are as long as their bounds allow break nothing further down, not even the indexes, whose entries have
    a bound of their own."""
    for number in range(3):
        longest = "".join(chr(0x10000 + 77 * place + number) for place in range(250))
        request = Request("work", longest, {}, idempotency_key=longest, request_id=longest)
        with transaction(pool) as connection:
            made = submission.submit(connection, WORK, request).job
        assert persist.add_items(pool, made.job_id, [(longest, {})], BatchSizer.within(BatchLimits())) == 1


ITEMS: list[tuple[str, Any]] = [
    ("items[1].key", ("", {})),
    ("items[1].key", ("k\0", {})),
    ("items[1].key", ("k\ud800", {})),
    ("items[1].key", ("k" * 1_001, {})),
    ("items[1].key", (None, {})),
    ("items[1].key", (5, {})),
    ("items[1].input", ("k", [])),
    ("items[1].input", ("k", None)),
    ("items[1].input", ("k", "text")),
    ("items[1].input", ("k", {"x": "x" * MEGABYTES})),
    ("items[1].input", ("k", {"x": "a\0"})),
    ("items[1].input", ("k", {"\0": 1})),
    ("items[1].input", ("k", {"x": "\ud83d"})),
    ("items[1].input", ("k", {"x": float("nan")})),
    ("items[1].input", ("k", {2: 1})),
    ("items[1].input", ("k", {"x": {1, 2}})),
]


@pytest.mark.parametrize(("field", "bad"), ITEMS, ids=lambda value: repr(value)[:40].encode("ascii", "replace"))
def test_an_item(pool: Engine, field: str, bad: Any) -> None:
    with transaction(pool) as connection:
        open_job = submission.submit(connection, WORK, GOOD).job
    before = everything(pool)
    items = [("good", {"n": 1}), bad, ("also good", {"n": 2})]
    refused(field, lambda: persist.add_items(pool, open_job.job_id, items, BatchSizer.within(BatchLimits())))

    def copy_all() -> None:
        with transaction(pool) as connection:
            persist.copy_all(connection, open_job.job_id, persist.checked(items))

    refused(field, copy_all)
    assert everything(pool) == before


def page(pool: Engine, job: Job, **given: Any) -> object:
    with transaction(pool) as connection:
        return pages.of_job(connection, job.job_key, **given)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("size", [0, -1, 1_001, 10**30, 1.5, "10", None, True])
def test_a_size_of_a_page(pool: Engine, job: Job, size: object) -> None:
    refused("size", lambda: page(pool, job, size=size))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("after", ["", "x", "AAAA", "💥", "a b", "\0", "../../etc", "A" * 100_000, 7, b"x"])
def test_a_cursor(pool: Engine, job: Job, after: object) -> None:
    refused("after", lambda: page(pool, job, after=after))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("statuses", [[], ["OPEN"], ["DLQ", "dlq"], "DLQ", [None], [""], ["DLQ\0"]])
def test_the_statuses_of_a_page(pool: Engine, job: Job, statuses: Any) -> None:
    refused("statuses", lambda: page(pool, job, statuses=statuses))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("statuses", [["PENDING"], ["SUCCEEDED"], ["nothing"], [None]])
def test_the_statuses_of_a_redrive(pool: Engine, job: Job, statuses: Any) -> None:
    refused("statuses", lambda: redrive.redrive(pool, job.job_key, statuses))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("key", ["", "J\0", "\ud800", None, "J" * 1_001])
def test_the_key_of_a_job(pool: Engine, key: Any) -> None:
    refused("job", lambda: jobs.cancel(pool, key))
    refused("job", lambda: redrive.redrive(pool, key))
    for act in (jobs.find, jobs.start, jobs.pause, jobs.resume, pages.of_job):

        def within(act: Callable[..., object] = act) -> None:
            with transaction(pool) as connection:
                act(connection, key)

        refused("job", within)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("run", ["", "r\0", "\ud800", "r" * 1_001])
def test_the_run_of_a_job(pool: Engine, job: Job, run: str) -> None:
    def start() -> None:
        with transaction(pool) as connection:
            jobs.start(connection, job.job_key, run)

    refused("dagster_run_id", start)
