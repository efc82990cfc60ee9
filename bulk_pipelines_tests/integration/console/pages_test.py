"""Every page, opened by everybody: without a login, as its owner, as another owner, as one who may only look, and as
an administrator. A new page without a row here fails the test."""

import re

import pytest
from fastapi.routing import APIRoute

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.console.application import HEADERS
from bulk_pipelines.console.pages import ROUTERS
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.browser import Visitor
from bulk_pipelines_tests.scenes.furnished import Furnished

ALL = "all"
OWN = "own"
ADMIN = "admin"

PAGES = {
    "/jobs": ALL,
    "/jobs/news": ALL,
    "/jobs/{rejected}": OWN,
    "/jobs/{rejected}/news": OWN,
    "/jobs/{rejected}/audit": OWN,
    "/jobs/{rejected}/rejects": OWN,
    "/jobs/{loaded}/control/undo": OWN,
    "/jobs/{processed}/items": OWN,
    "/jobs/{processed}/items/{item}": OWN,
    "/jobs/{processed}/grid": OWN,
    "/jobs/{processed}/grid.csv": OWN,
    "/jobs/{processed}/reprocess": OWN,
    "/jobs/{processed}/review": OWN,
    "/jobs/{processed}/review/thresholds": OWN,
    "/pending": ALL,
    "/new/process": ALL,
    "/dlq": ALL,
    "/drops": ADMIN,
    "/workers": ALL,
    "/workers/news": ALL,
    "/resources": ALL,
    "/audit": ALL,
    "/keys": ADMIN,
    "/new/import": ALL,
    "/new/export": ALL,
    "/new/distribution": ALL,
}
FORMS = {
    "/jobs/{loaded}/control/pause": OWN,
    "/jobs/{rejected}/rejects": OWN,
    "/jobs/{processed}/items": OWN,
    "/jobs/{processed}/reprocess?error=nothing-has-it": OWN,
    "/jobs/{processed}/review": OWN,
    "/jobs/{rejected}/review/apply": OWN,
    "/pending": ALL,
    "/new/process": ALL,
    "/dlq": ALL,
    "/drops/retry": ADMIN,
    "/keys": ADMIN,
    "/keys/revoke": ADMIN,
    "/resources": ADMIN,
    "/new/import": ALL,
    "/new/export": ALL,
    "/new/distribution": ALL,
}
PREVIEW = "POST /new/import/preview"
PUBLIC = {"GET /login", "POST /login", "POST /logout"}


@pytest.fixture(scope="module")
def visitors(api: Api) -> dict[str, Visitor]:
    return {
        "nobody": Visitor(api),
        "ada": Visitor(api, "ada"),
        "eve": Visitor(api, "eve"),
        "rita": Visitor(api, "rita", Scope.READ),
        "root": Visitor(api, "root", Scope.ADMIN),
    }


def declared() -> set[str]:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return {f"{method} {shape(route.path)}" for route in routes for method in route.methods or ()}


def shape(path: str) -> str:
    path = re.sub(r"grid\.\w+", "grid.{}", re.sub(r"/control/\w+", "/control/{}", path.partition("?")[0]))
    return re.sub(r"\{\w+\}", "{}", path)


def placed(path: str, made: Furnished) -> str:
    keys = {name: job.job_key for name, job in made.jobs.items()}
    return "/console" + path.format(**keys, item=made.item_of("processed"))


def test_every_page_has_a_row() -> None:
    known = {f"GET {shape(path)}" for path in PAGES} | {f"POST {shape(path)}" for path in FORMS} | PUBLIC | {PREVIEW}
    assert declared() == known


@pytest.mark.parametrize("path", PAGES)
def test_only_who_may_sees_a_page(visitors: dict[str, Visitor], made: Furnished, path: str) -> None:
    place, whose = placed(path, made), PAGES[path]
    expected = {
        ALL: {"ada": 200, "eve": 200, "rita": 200, "root": 200},
        OWN: {"ada": 200, "eve": 404, "rita": 404, "root": 200},
        ADMIN: {"ada": 403, "eve": 403, "rita": 403, "root": 200},
    }[whose]
    led = visitors["nobody"].open(place)
    assert led.status_code == 303
    assert led.headers["location"].startswith("/console/login")
    for name, status in expected.items():
        page = visitors[name].begin(place) if path.endswith("/news") else visitors[name].open(place)
        assert page.status_code == status, (name, page.text)
        if name == "eve" and whose is ALL:
            assert "ada" not in page.text
        for header, value in HEADERS.items():
            assert page.headers[header] == value
        assert page.headers["Cache-Control"] == "no-store"
        if not page.headers["content-type"].startswith("text/html"):
            continue
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", page.text)


@pytest.mark.parametrize("path", FORMS)
def test_only_who_may_sends_a_form(visitors: dict[str, Visitor], made: Furnished, path: str) -> None:
    place, whose = placed(path, made), FORMS[path]
    for name, visitor in visitors.items():
        token = "0" * 64 if name == "nobody" else visitor.token("/console/jobs")
        forged = visitor.client.post(place, data={"token": "0" * 64})
        sent = visitor.client.post(place, data={"token": token})
        if name == "nobody":
            assert (forged.status_code, sent.status_code) == (303, 303)
        elif name == "rita" or (whose is ADMIN and name != "root"):
            assert (forged.status_code, sent.status_code) == (403, 403)
        elif whose is OWN and name == "eve":
            assert (forged.status_code, sent.status_code in (400, 404)) == (403, True)
        else:
            assert forged.status_code == 403
            assert sent.status_code in (400, 404, 409) or "reprocess" in path, sent.text


@pytest.mark.parametrize("place", ["/", "/console", "/console/"])
def test_the_root_leads_to_the_jobs(visitors: dict[str, Visitor], place: str) -> None:
    assert visitors["ada"].open(place, follow_redirects=True).url.path == "/console/jobs"
    assert visitors["nobody"].open(place, follow_redirects=True).url.path == "/console/login"


def test_a_page_that_is_not_there_says_so(visitors: dict[str, Visitor]) -> None:
    page = visitors["ada"].open("/console/nowhere")
    assert page.status_code == 404
    assert "There is no such page" in page.text
    assert page.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


def test_files_of_pages_are_kept_for_ever_and_change_their_names(visitors: dict[str, Visitor]) -> None:
    page = visitors["ada"].open("/console/jobs").text
    found = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page)
    assert len(set(found)) == 4
    for place in found:
        answer = visitors["nobody"].open(place)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        assert "set-cookie" not in answer.headers
    assert visitors["nobody"].open("/console/static/console.000000000000.js").status_code == 404


def test_every_job_stands_on_one_page_of_the_list(visitors: dict[str, Visitor], made: Furnished) -> None:
    """The list is read by its plain links, as without JavaScript."""
    found = re.findall(r'<tr id="(J\w+)"', visitors["ada"].open("/console/jobs").text)
    assert sorted(found) == sorted(job.job_key for job in made.jobs.values())
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("state=PAUSED", {"paused"}),
        ("kind=export", {"exported"}),
        ("kind=distribution&state=FAILED", {"undistributed"}),
        ("text=partners.csv", {"rejected"}),
        ("origin=cli", {"exported"}),
        ("until=2020-01-01", set()),
    ],
)
def test_filters_choose_jobs(visitors: dict[str, Visitor], made: Furnished, query: str, names: set[str]) -> None:
    page = visitors["ada"].open(f"/console/jobs?{query}").text
    assert set(re.findall(r'<tr id="(J\w+)"', page)) == {made.jobs[name].job_key for name in names}


@pytest.mark.parametrize("query", ["state=NONE", "after=x", "since=yesterday"])
def test_a_wrong_filter_is_said(visitors: dict[str, Visitor], query: str) -> None:
    assert visitors["ada"].open(f"/console/jobs?{query}").status_code == 400
