"""What people do to jobs from their pages."""

import csv
import io
import re
from html import unescape

import pytest

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import done, found
from bulk_pipelines_tests.scenes.browser import Visitor, words
from bulk_pipelines_tests.scenes.furnished import Furnished
from bulk_pipelines_tests.scenes.whole_imports import begun, worked


def test_a_job_is_paused_resumed_and_cancelled_and_each_is_said_before(ada: Visitor, made: Furnished) -> None:
    key = made.jobs["waiting"].job_key
    for name, before, status in (
        ("pause", "The workers stop", "PAUSED"),
        ("resume", "goes on where it stopped", "RUNNING"),
        ("cancel", "cannot be taken back", "CANCELLED"),
    ):
        place = f"/console/jobs/{key}/control/{name}"
        assert before in words(ada.open(place))
        answer = ada.send(place)
        assert answer.headers["location"] == f"/console/jobs/{key}"
        assert found(made.engine, key).status == status
        page = words(ada.open(f"/console/jobs/{key}"))
        assert "The job" in page
    refused = ada.send(f"/console/jobs/{key}/control/pause")
    assert refused.status_code == 409
    assert f"job {key} is CANCELLED: it cannot pause" in words(refused)
    entries = words(ada.open(f"/console/jobs/{key}/audit"))
    assert all(action in entries for action in ("submit", "pause", "resume", "cancel"))


def test_an_import_is_undone_after_it_was_said_what_goes(ada: Visitor, made: Furnished) -> None:
    key = made.jobs["loaded"].job_key
    place = f"/console/jobs/{key}/control/undo"
    assert "400 rows that this import added will be removed" in words(ada.open(place))
    ada.send(place)
    assert "400 rows taken back" in words(ada.open(f"/console/jobs/{key}"))


def test_rejects_are_mended_in_place_and_run_again(ada: Visitor, made: Furnished) -> None:
    key = made.jobs["rejected"].job_key
    place = f"/console/jobs/{key}/rejects"
    page = ada.open(place).text
    assert len(re.findall(r'name="line"', page)) == 12
    marked = re.findall(r'<td class="wrong"><input class="cell" name="([\d.]+)" value="([^"]*)"', page)
    assert marked[:3] == [("2.1", "nobody"), ("3.3", "boss"), ("4.4", "maybe")]
    columns = re.findall(r'name="column" value="(\w+)"', page)
    fields = {"column": columns, "line": ["2", "4"], "2.1": "mended@example.org", "4.4": "true", "3.3": "not chosen"}
    answer = ada.send(place, fields)
    again = answer.headers["location"].rpartition("/")[2]
    assert ada.send(place, fields).headers["location"].endswith(again), "twice the same is once"
    job = done(made.engine, again)
    assert (job.status, job.params["replay_of"]) == ("COMPLETED", key)
    with made.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT email, name, active FROM users WHERE import_job = %s ORDER BY email", (job.job_id,)
        ).fetchall()
    assert [tuple(row) for row in rows] == [
        ("mended@example.org", "No Address", True),
        ("mia@example.org", "Mia", True),
    ]


def test_all_rejects_are_replayed_after_it_was_said_what_that_does(ada: Visitor, made: Furnished) -> None:
    job = worked(made.engine, begun(made.engine, made.users("replayed.csv", ",nobody,Nobody,reader,true\n")))
    place = f"/console/jobs/{job.job_key}/control/replay"
    assert "All rejected records run once more, unchanged" in words(ada.open(place))
    again = ada.send(place).headers["location"].rpartition("/")[2]
    assert found(made.engine, again).params["replay_of"] == job.job_key
    assert "run again, as this import" in words(ada.open(f"/console/jobs/{again}"))


@pytest.mark.parametrize("fields", [{}, {"line": "x"}, {"line": "99"}, {"line": "2", "2.text": '"never closed'}])
def test_what_cannot_be_mended_is_said(ada: Visitor, made: Furnished, fields: dict[str, str]) -> None:
    assert ada.send(f"/console/jobs/{made.jobs['rejected'].job_key}/rejects", fields).status_code in (400, 409)


def test_dead_letters_are_redriven_by_ticking_them(ada: Visitor, api: Api, made: Furnished) -> None:
    page = ada.open("/console/dlq").text
    found_items = re.findall(r'name="item" value="([^"]+)"', page)
    assert len(found_items) == 1
    eve = Visitor(api, "eve")
    sent = {"act": "redrive", "item": found_items}
    assert eve.send("/console/dlq", sent, page="/console/new/import").status_code == 404
    assert eve.send("/console/dlq", {"act": "redrive all"}, page="/console/new/import").status_code == 303
    assert found(made.engine, made.jobs["undistributed"].job_key).dlq_items == 1
    ada.send("/console/dlq", {"act": "redrive", "item": found_items})
    assert "1 dead letter tried again" in words(ada.open("/console/dlq"))
    assert found(made.engine, made.jobs["undistributed"].job_key).dlq_items == 0


def test_an_export_is_looked_at_and_started(ada: Visitor, made: Furnished) -> None:
    page = ada.open("/console/new/export?resource=users&fields=email&where=name%3DNew+7")
    assert re.search(r"<td class=\"data\">new7@example.org</td>", page.text)
    assert "created_at</th>" not in page.text
    wrong = ada.open("/console/new/export?resource=users&where=nothing%3D1")
    assert wrong.status_code == 400
    assert "nothing" in words(wrong)
    asked = {"resource": "users", "format": "ndjson", "fields": ["id", "email"], "where": "role=reader"}
    answer = ada.send("/console/new/export", asked)
    job = found(made.engine, answer.headers["location"].rpartition("/")[2])
    assert (job.kind, job.owner, job.params["fields"]) == ("export_users", "ada", ["id", "email"])


def test_an_adopted_table_stands_in_the_forms(ada: Visitor, api: Api, made: Furnished) -> None:
    page = ada.open("/console/new/export?resource=orders&fields=customer&fields=email&where=number%3C%3D2")
    assert re.findall(r'<td class="data">([^<]*)</td>', page.text) == ["customer 1", "customer 2"]
    assert "2 rows" in words(page)
    answer = ada.send("/console/new/export", {"resource": "orders", "order": "-number"})
    job = found(made.engine, answer.headers["location"].rpartition("/")[2])
    assert (job.kind, job.params["declaration"]["table"]) == ("export_orders", "orders")
    assert "<option selected>orders</option>" in ada.open("/console/new/import?resource=orders").text
    headers = {"X-CSRF-Token": ada.token("/console/jobs")}
    place = "/console/new/import/preview?resource=orders&name=orders.csv"
    told = words(ada.client.post(place, content=b"number,customer,total\n1,a,2.5\n2,,1\n", headers=headers))
    assert "1 of the first 2 records would be rejected" in told


def test_an_administrator_adopts_a_table_and_everybody_works_with_it(ada: Visitor, api: Api, made: Furnished) -> None:
    root = Visitor(api, "root", Scope.ADMIN)
    for table in ("shop.nowhere", "'; DROP TABLE job; --", "", "api_key", "public.job", "pg_catalog.pg_authid"):
        wrong = root.send("/console/resources", {"table": table})
        assert wrong.status_code == 400
        assert "Adopt a table" in words(wrong), "the page is there to try again"
    assert root.send("/console/resources", {"table": "shop.orders", "name": "users"}).status_code == 400
    assert 'name="table"' not in ada.open("/console/resources").text
    answer = root.send("/console/resources", {"table": "shop.customers", "name": "customers"})
    assert answer.status_code == 303
    assert "customers is adopted" in words(root.open("/console/resources"))
    assert "customers" in words(ada.open("/console/resources"))
    job = ada.client.post(
        "/v1/imports?resource=customers",
        content=b"email,name\na@example.org,A\n",
        headers={"X-CSRF-Token": ada.token("/console/jobs"), "Content-Type": "text/csv"},
    ).json()
    submitted = begun(made.engine, found(made.engine, job["job_id"]))
    assert worked(made.engine, submitted, known_kinds()).status == "COMPLETED"
    assert job["job_id"] in ada.open("/console/jobs?kind=import").text
    assert "Rejects" in words(ada.open(f"/console/jobs/{job['job_id']}"))
    assert "adopt" in words(root.open("/console/audit?action=adopt"))


def test_a_dropped_file_is_taken_again_and_its_history_stays(api: Api, made: Furnished) -> None:
    root, sources = Visitor(api, "root", Scope.ADMIN), made.folder / "drops.toml"
    text = sources.read_text()
    sources.write_text(text.replace("/srv/inbox", str(made.folder / "inbox")))
    try:
        page = root.open("/console/drops")
        pattern = r'name="path" value="([^"]+)"><input type="hidden" name="source" value="([^"]+)"'
        found_files = re.findall(pattern, page.text)
        assert found_files == [("users-2026-01-28.csv", "inbox")]
        path, source = found_files[0]
        nothing = root.send("/console/drops/retry", {"path": "nothing", "source": source}, page="/console/drops")
        assert nothing.status_code == 404
        answer = root.send("/console/drops/retry", {"path": path, "source": source}, page="/console/drops")
        assert answer.status_code == 303, answer.text
        page = root.open("/console/drops")
        assert f"{path} is taken again by the next look" in words(page)
        assert re.search(rf"{path}</th><td[^>]*><span class=\"chip live\">watched", page.text)
        assert 'action="/console/drops/retry"' not in page.text, "it is taken again once"
        assert "retry" in words(root.open("/console/audit?action=retry+drop"))
    finally:
        sources.write_text(text)


def test_a_distribution_is_checked_and_started(ada: Visitor, made: Furnished) -> None:
    text = "indexKey;effectiveDate;asofindicator\nA;20240101;CLS\nB;20240102;CLS\n"
    checked = ada.send("/console/new/distribution", {"inputs": text, "act": "check"})
    assert "2 inputs without a mistake" in words(checked)
    wrong = ada.send("/console/new/distribution", {"inputs": "A,2024,CLS", "act": "start"})
    assert wrong.status_code == 400
    assert "effectiveDate" in words(wrong)
    answer = ada.send("/console/new/distribution", {"inputs": text, "act": "start"})
    assert found(made.engine, answer.headers["location"].rpartition("/")[2]).total_items == 2


def test_an_administrator_makes_a_key_that_is_shown_once_and_revokes_it(api: Api) -> None:
    root = Visitor(api, "root", Scope.ADMIN)
    page = root.send("/console/keys", {"owner": "zoe", "scope": "read", "days": "30"})
    shown = re.search(r'id="made-key">(bulk_\w{12}_[\w-]+)<', page.text)
    assert shown
    assert shown[1] not in root.open("/console/keys").text
    zoe = Visitor(api)
    zoe.log_in(shown[1])
    assert "zoe · read only" in words(zoe.open("/console/jobs"))
    root.send("/console/keys/revoke", {"key_id": shown[1].split("_")[1]}, page="/console/keys")
    assert zoe.log_in(shown[1]).status_code == 401


def test_the_grid_shows_the_cells_of_the_download(ada: Visitor, made: Furnished) -> None:
    place = f"/console/jobs/{made.jobs['processed'].job_key}/grid"
    download = ada.open(f"{place}.csv")
    assert download.headers["content-disposition"].endswith('.csv"')
    rows = list(csv.reader(io.StringIO(download.text, newline="")))
    page = ada.open(place).text
    headers = [unescape(each) for each in re.findall(r'<th scope="col">([^<]*)</th>', page)]
    assert headers[1 : 1 + len(rows[0])] == rows[0]
    cells = [unescape(each) for each in re.findall(r'<td class="data">([^<]*)</td>', page)]
    assert [cells[start : start + len(rows[0])] for start in range(0, len(cells), len(rows[0]))] == rows[1:]


def test_rows_are_counted_and_then_tried_again(ada: Visitor, made: Furnished) -> None:
    key = made.jobs["processed"].job_key
    place = f"/console/jobs/{key}/reprocess"
    assert "1 row matched." in words(ada.open(f"{place}?state=NOT_FOUND&where=title%3DVase+Erika"))
    assert "0 rows matched." in words(ada.open(f"{place}?state=NOT_FOUND&where=title%3DLamp"))
    assert ada.open(f"{place}?state=MOON").status_code == 400
    ids = re.findall(r'name="item" value="(\d+)"', ada.open(f"/console/jobs/{key}/grid").text)
    assert len(ids) == 5
    items = f"/console/jobs/{key}/items"
    told = {"item": ids, "state": "all", "act": "count"}
    ada.send(items, told)
    assert "1 item would be tried again. 4 items left alone" in words(ada.open(f"/console/jobs/{key}"))
    ada.send(items, {"scope": "all", "state": "NOT_FOUND", "act": "reprocess"})
    assert "1 item tried again." in words(ada.open(f"/console/jobs/{key}"))
    job = found(made.engine, key)
    assert (job.status, job.pending_items, job.not_found_items) == ("RUNNING", 1, 0)
    ada.send(items, told | {"act": "skip"})
    assert "1 item left out. 4 items left alone" in words(ada.open(f"/console/jobs/{key}"))
    job = found(made.engine, key)
    assert (job.pending_items, job.skipped_items) == (0, 1)
    assert "skip" in words(ada.open(f"/console/jobs/{key}/audit"))


def test_pending_items_are_shown_to_their_owner_only(ada: Visitor, api: Api, made: Furnished) -> None:
    # The item of the running import waits.
    key = made.jobs["running"].job_key
    assert key in ada.open("/console/pending").text
    assert key not in Visitor(api, "eve").open("/console/pending").text
    assert key in Visitor(api, "root", Scope.ADMIN).open("/console/pending?owner=ada").text
    assert key not in Visitor(api, "root", Scope.ADMIN).open("/console/pending?owner=eve").text
    assert key in ada.open(f"/console/pending?job={key}&status=PROCESSING").text
    assert Visitor(api, "eve").open(f"/console/pending?job={key}").status_code == 404
    assert ada.open("/console/pending?status=MOON").status_code == 400
