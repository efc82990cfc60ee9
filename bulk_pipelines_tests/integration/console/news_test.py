"""What open pages are told: parts that have changed, by one look for all of them."""

import contextlib
import re
import threading
import time
from typing import Self

import pytest
from sqlalchemy import event

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.browser import Visitor
from bulk_pipelines_tests.scenes.furnished import ADA, Furnished
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 60.0
MOST_A_SECOND = 2.0


class Page:
    """An open page that listens, and what it has been told."""

    def __init__(self, visitor: Visitor, place: str) -> None:
        self.visitor = visitor
        self.place = place
        self.lines: list[str] = []
        self.ended = False
        self.thread = threading.Thread(target=self.read, daemon=True)

    def read(self) -> None:
        with contextlib.suppress(Exception), self.visitor.client.stream("GET", self.place, timeout=None) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                self.lines.append(line)
        self.ended = True

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.visitor.client.close()

    def is_told(self, text: str) -> None:
        until(lambda: text in self.text, f"the page is told {text!r}", PATIENCE)


def paused_and_resumed(made: Furnished, key: str) -> None:
    with transaction(made.engine) as connection:
        jobs.pause(connection, key, ADA)
        jobs.resume(connection, key, ADA)


def test_a_page_is_told_what_it_shows_and_nobody_is_told_of_others_jobs(api: Api, made: Furnished) -> None:
    mine, done = made.jobs["waiting"].job_key, made.jobs["loaded"].job_key
    lists = f"/console/jobs/news?job={mine}&job={done}"
    with (
        Page(Visitor(api, "ada"), f"/console/jobs/{mine}/news") as job,
        Page(Visitor(api, "ada"), lists) as some,
        Page(Visitor(api, "eve"), lists) as others,
        Page(Visitor(api, "root", Scope.ADMIN), "/console/workers/news") as workers,
    ):
        job.is_told('data-state="SUBMITTED"')
        assert 'id="head"' in job.text
        some.is_told(f'<tr id="{mine}"')
        some.is_told(f'<tr id="{done}"')
        workers.is_told("worker-1.example")
        others.is_told("event: parts")
        with transaction(made.engine) as connection:
            jobs.pause(connection, mine, ADA)
        job.is_told('data-state="PAUSED"')
        some.is_told("paused")
        assert mine not in others.text
        with transaction(made.engine) as connection:
            connection.execute(
                "DELETE FROM console_session WHERE key_id IN (SELECT key_id FROM api_key WHERE owner = 'ada')"
            )
        until(lambda: job.ended and some.ended, "the pages of a session that is over are told nothing", PATIENCE)
        assert not others.ended


def test_a_list_is_told_that_there_are_newer_jobs(api: Api, made: Furnished) -> None:
    ada = Visitor(api, "ada")
    newest = re.findall(r"newest=(\d+)", ada.open("/console/jobs").text)
    assert "newest=" not in ada.open("/console/jobs?kind=import").text
    with Page(ada, f"/console/jobs/news?newest={newest[0]}") as page:
        page.is_told("event: parts")
        assert "New jobs have come" not in page.text
        made.users("newer.csv", "", owner="eve")
        made.users("newer.csv", "")
        page.is_told("New jobs have come")


def test_the_end_of_a_job_is_told(api: Api, made: Furnished) -> None:
    with Page(Visitor(api, "ada"), f"/console/jobs/{made.jobs['loaded'].job_key}/news") as page:
        until(lambda: page.ended, "the page is told the end", PATIENCE)
    assert "event: end" in page.text
    assert 'data-state="COMPLETED"' in page.text


def test_many_open_pages_cost_the_database_two_queries_a_second(api: Api, made: Furnished) -> None:
    keys = [made.jobs[name].job_key for name in ("running", "paused")]
    places = [f"/console/jobs/{key}/news" for key in keys] * 10
    places += ["/console/jobs/news?" + "&".join(f"job={key}" for key in keys), "/console/workers/news"] * 10
    taken: list[float] = []
    with contextlib.ExitStack() as stack:
        pages = [stack.enter_context(Page(Visitor(api, "ada"), place)) for place in places]
        for page in pages:
            page.is_told("event: parts")

        @event.listens_for(api.engine, "checkout")
        def looked(*_: object) -> None:
            taken.append(time.monotonic())

        began = time.monotonic()
        until(lambda: time.monotonic() > began + 6, "some seconds are over", PATIENCE)
        event.remove(api.engine, "checkout", looked)
        seconds = time.monotonic() - began
    assert 1 <= len(taken) <= MOST_A_SECOND * seconds + 2


@pytest.mark.parametrize("text", ["a\rb", "a\r\nevent: end", "\n\ndata: x"])
def test_no_text_is_taken_for_a_field_of_an_event(api: Api, made: Furnished, text: str) -> None:
    with transaction(made.engine) as connection:
        connection.execute("UPDATE job SET last_error = %s WHERE job_key = %s", [text, made.jobs["paused"].job_key])
    with Page(Visitor(api, "ada"), f"/console/jobs/{made.jobs['paused'].job_key}/news") as page:
        page.is_told("</section>")
    assert "event: end" not in page.lines
    assert all(line == "" or line.partition(": ")[0] in ("event", "data", "retry", "") for line in page.lines)
