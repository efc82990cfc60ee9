"""Every page, opened by everybody: without a login, as its owner, as another owner, as one who may only look, and as
an administrator. A new page without a row here fails the test."""

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.console.application import HEADERS
from bulk_pipelines.console.pages import ROUTERS
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.exports import submission as exports
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import submission as imports
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.browser import Visitor, words
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


def test_speeds_batches_lanes_and_runs_are_shown(visitors: dict[str, Visitor], made: Furnished) -> None:
    job = made.jobs["running"]
    with transaction(made.engine) as connection:
        for step, rows in enumerate((100, 400, 900, 1_600)):
            connection.execute(
                "INSERT INTO batch_step"
                " (job_id, worker, step, taken_at, row_count, byte_count, seconds, next_rows, reason)"
                " VALUES (%s, 'w', %s, now() + %s * interval '1 second', %s, 1, 0.5, 1, 'grows')",
                [job.job_id, step, step, rows],
            )
        connection.execute(
            "INSERT INTO job_run (dagster_run_id, job_id) VALUES ('0123456789abcdef-run', %s)", [job.job_id]
        )
    row = visitors["ada"].open("/console/jobs?state=RUNNING").text
    assert 'class="spark" viewBox' in row
    assert "Speed over time, at most 1,600 rows a step" in row
    page = visitors["ada"].open(f"/console/jobs/{job.job_key}")
    assert "Rows and seconds of each batch: at most 1,600 rows and 0.50 seconds" in page.text
    assert "At work: worker-1.example (1)" in words(page)
    assert '/runs/0123456789abcdef-run">01234567</a>' in page.text
    for name in ("paused", "waiting"):
        assert 'class="spark"' not in visitors["ada"].open(f"/console/jobs?text={made.jobs[name].job_key}").text


def test_an_item_is_shown_with_all_that_is_known_of_it(visitors: dict[str, Visitor], made: Furnished) -> None:
    place = f"/console/jobs/{made.jobs['processed'].job_key}/items/{made.item_of('processed')}"
    told = words(visitors["ada"].open(place))
    for each in (
        "key 000000001",
        "attempts 1",
        "trace",
        "Evidence",
        "score 0.97",
        "Candidate",
        "Input",
        "Result",
        "Lamp Aster",
    ):
        assert each in told, each
    letter = re.findall(r'href="(/console/jobs/\w+/items/\d+)"', visitors["ada"].open("/console/dlq").text)
    assert "error permanent there is no data of NOWHERE" in words(visitors["ada"].open(letter[0]))


def test_the_overview_of_waiting_items_can_be_taken_away(made: Furnished, tmp_path: Path) -> None:
    with serving_here(made.engine, tmp_path / "home", pending_dashboard=False) as api:
        ada = Visitor(api, "ada")
        assert ada.open("/console/pending").status_code == 404
        assert 'href="/console/pending"' not in ada.open("/console/jobs").text
        assert ada.open(f"/console/jobs/{made.jobs['running'].job_key}/items").status_code == 200


def test_no_secret_of_an_address_is_in_a_page(visitors: dict[str, Visitor], made: Furnished) -> None:
    secret = "https://ada:geheim1@example.org/users.csv?token=geheim2"
    with transaction(made.engine) as connection:
        request = Options("users").request((RequestedFile(secret),))
        job = imports.submit(connection, request, Sender("ada", "api")).job
        wanted = ExportRequest.parse({"resource": "users", "to": "ftp://ada:geheim3@example.org/exports/"})
        export = exports.submit(connection, wanted, Sender("ada", "api")).job
    for key in (job.job_key, export.job_key):
        for part in ("", "/items", "/audit", "/control/cancel"):
            for name in ("ada", "root"):
                page = visitors[name].open(f"/console/jobs/{key}{part}")
                assert page.status_code == 200
                assert "geheim" not in page.text, (key, part, name)
    assert "geheim" not in visitors["root"].open("/console/jobs").text
    assert "geheim" not in visitors["root"].open("/console/audit").text
