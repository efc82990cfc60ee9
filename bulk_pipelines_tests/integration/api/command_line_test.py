"""What the command line can, over HTTP: tables, previews, and records that somebody has mended."""

import gzip
import io
import json

import httpx
import pytest
from backports import zstd
from sqlalchemy import Engine

from bulk_pipelines.api.imports import previewing
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import (
    HEADER,
    count,
    done,
    landed,
    line,
    nothing_is_left,
    sent,
    uploads_left,
    users,
)

ORDERS = "CREATE SCHEMA shop; CREATE TABLE shop.orders (id integer PRIMARY KEY, what text NOT NULL)"
CSV = {"Content-Type": "text/csv"}


def test_an_administrator_names_any_table(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(ORDERS)
    admin, ada = api.admin, api.client("ada")
    form = {"files": {"file": ("o.csv", b"id,what\n4,cup\n")}, "data": {"table": "shop.orders"}}
    resumable = {**CSV, "Upload-Complete": "?1"}
    answers = [
        admin.post("/v1/imports", params={"table": "shop.orders"}, content=b"id,what\n1,lamp\n", headers=CSV),
        admin.post("/v1/imports", params={"table": "shop.orders"}, content=b"id,what\n2,pan\n", headers=resumable),
        admin.post("/v1/imports", **form),  # type: ignore[arg-type]
    ]
    for answer in answers:
        assert answer.status_code == 202, answer.text
        assert done(engine, answer.json()["job_id"]).status == "COMPLETED"
    assert admin.get(f"/v1/imports/{answers[0].json()['job_id']}").json()["resource_type"] == "shop.orders"
    streamed = admin.get("/v1/exports", params={"table": "shop.orders", "order": "id"})
    assert streamed.text.splitlines() == ["id,what", "1,lamp", "2,pan", "4,cup"]
    made = asked(admin, table="shop.orders", where=["id=2"])
    assert made.status_code == 202, made.text
    assert completed(engine, made.json()["job_id"]).result["rows"] == 1  # type: ignore[index]
    for answer in (
        ada.post("/v1/imports", params={"table": "shop.orders"}, content=b"id\n", headers=CSV),
        ada.post("/v1/imports", json={"table": "shop.orders", "url": "https://example.org/o.csv"}),
        ada.get("/v1/exports", params={"table": "shop.orders"}),
        asked(ada, table="shop.orders"),
    ):
        assert answer.status_code == 403, answer.text
    both = admin.post("/v1/imports", params={"table": "shop.orders", "resource": "users"}, content=b"x", headers=CSV)
    assert (both.status_code, both.json()["field"]) == (400, "table")
    none = admin.get("/v1/exports", params={"table": "no_such"})
    assert (none.status_code, none.json()["field"]) == (400, "table")
    assert uploads_left(api) == 0


def test_a_file_for_any_table_comes_in_parts(api: Api, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(ORDERS)
    admin, ada, content = api.admin, api.client("ada"), b"id,what\n1,lamp\n2,pan\n"
    part = {"Content-Type": "application/partial-upload", "Upload-Complete": "?1", "Upload-Offset": "9"}

    def begun(client: httpx.Client, content: bytes, complete: bool = False, **told: str) -> httpx.Response:
        said = {**CSV, "Idempotency-Key": "parts", "Upload-Complete": "?1" if complete else "?0"}
        return client.post("/v1/imports", params={"table": "shop.orders", **told}, content=content, headers=said)

    refused = begun(ada, content[:9])
    assert (refused.status_code, "only an administrator" in refused.text) == (403, True), refused.text
    missing = begun(admin, content[:9], table="shop.nothing")
    assert (missing.status_code, missing.json()["field"]) == (400, "table"), missing.text
    nothing_is_left(api)
    first = begun(admin, content[:9])
    assert first.status_code == 201, first.text
    place = first.headers["Location"]
    assert ada.head(place).status_code == ada.patch(place, content=content[9:], headers=part).status_code == 404
    last = admin.patch(place, content=content[9:], headers=part)
    assert last.status_code == 202, last.text
    key = last.json()["job_id"]
    again = begun(admin, content, complete=True)
    assert (again.status_code, again.json().get("job_id")) == (200, key), again.text
    assert begun(admin, content, complete=True, mode="upsert").status_code == 422
    assert done(engine, key).status == "COMPLETED"
    assert count(engine, "SELECT count(*) FROM shop.orders") == 2
    assert uploads_left(api) == 0


MAILS = (HEADER + line(1) + "x,nobody,Name,reader,true\n").replace(",", ";").replace("email", "mail").encode()


@pytest.mark.parametrize("form", ["body", "form", "packed"])
def test_a_file_is_looked_at_and_nothing_is_kept(api: Api, form: str) -> None:
    ada, told = api.client("ada"), {"resource": "users", "map": "email=mail"}
    if form == "form":
        answer = ada.post("/v1/imports/preview", data=told, files={"file": ("users.csv", MAILS)})
    else:
        packed = {"Content-Encoding": "gzip"} if form == "packed" else {}
        content = gzip.compress(MAILS) if packed else MAILS
        answer = ada.post("/v1/imports/preview", params=told, content=content, headers={**CSV, **packed})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["problem"], found["format"], found["recognised"]["delimiter"]) == (None, "csv", "semicolon")
    assert {"column": "email", "field": "mail", "constant": None, "expression": None} in found["columns"]
    assert (found["judged"], found["rejected"], len(found["records"])) == (2, 1, 1)
    assert found["rejects"][0]["line"] == 3
    nothing_is_left(api)


def test_a_look_says_what_is_wrong_and_what_to_do(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = api.client("ada")
    look = "/v1/imports/preview"
    extra = ada.post(look, params={"resource": "users"}, content=b"id,email,name,role,active,x\n", headers=CSV).json()
    assert "x" in extra["problem"]
    assert extra["remedy"] == {"ignore_extra": True}
    monkeypatch.setattr(previewing, "LARGEST", 1_000)
    content = users(*range(50))
    large = ada.post(look, params={"resource": "users"}, content=content, headers=CSV)
    assert (large.status_code, large.json()["type"]) == (413, "/problems/too-large")
    cut = ada.post(look, params={"resource": "users", "cut": "true"}, content=content[:900], headers=CSV)
    assert (cut.status_code, cut.json()["rejected"]) == (200, 0), "the line that was cut is no record"
    wrong = ada.post(look, params={"resource": "users"}, json={"url": "https://example.org"})
    assert wrong.status_code == 415, wrong.text
    nothing_is_left(api)


def test_a_look_that_is_refused_names_the_file_as_its_sender_does(api: Api) -> None:
    look, packed = "/v1/imports/preview", gzip.compress(users(*range(5)))
    for told, content in (({"compression": "gzip"}, users(1)), ({}, packed[:-20] + bytes(20)), ({}, packed[:-20])):
        form = {"resource": "users", **told}
        answer = api.client("ada").post(look, data=form, files={"file": ("people.csv.gz", content)})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/bad-compression"), answer.text
        assert "people.csv.gz" in answer.json()["detail"]
        assert "bulk-preview" not in answer.text
    nothing_is_left(api)


@pytest.mark.parametrize("form", ["body", "form", "content type"])
def test_the_beginning_of_a_packed_file_is_looked_at(api: Api, form: str) -> None:
    ada, told = api.client("ada"), {"resource": "users", "cut": "true"}
    look, head = "/v1/imports/preview", gzip.compress(users(*range(20_000)))[:50_000]
    if form == "form":
        answer = ada.post(look, data=told, files={"file": ("users.csv.gz", head)})
    else:
        kind = "text/csv" if form == "body" else "application/gzip"
        answer = ada.post(look, params=told, content=head, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["problem"], found["judged"], found["rejected"]) == (None, 1_000, 0)
    assert found["recognised"].items() >= {"compression": "gzip", "delimiter": "comma"}.items()
    whole = ada.post(look, params={"resource": "users"}, content=head, headers=CSV)
    assert "is cut off" in whole.text, "nobody said that more follows"
    wrong = ada.post(look, params={**told, "compression": "xz"}, content=head, headers=CSV)
    assert (wrong.status_code, "was said to be xz" in wrong.text) == (400, True), wrong.text
    tiny = ada.post(look, params=told, content=zstd.compress(b"") * 10_001, headers=CSV)
    assert (tiny.status_code, "tiny zstd frames" in tiny.text) == (413, True), tiny.text
    nothing_is_left(api)


def test_mended_records_are_uploaded(api: Api) -> None:
    ada = api.client("ada")
    wrong = f"{line(1)}x,nobody,Name,reader,true\n"
    first = sent(ada, (HEADER + wrong).encode()).json()["job_id"]
    place = f"/v1/imports/{first}/replay"
    early = ada.post(place, content=users(2), headers=CSV)
    assert early.status_code == 409, early.text
    done(api.engine, first)
    key = {"Idempotency-Key": "mend"}
    mended = ada.post(place, content=users(2), headers={**CSV, **key})
    assert mended.status_code == 202, mended.text
    told = mended.json()
    assert (told["replay_of"], told["owner"], told["idempotency_key"]) == (first, "ada", "mend")
    again = ada.post(place, files={"file": io.BytesIO(users(2))}, headers=key)
    assert (again.status_code, again.json()["job_id"]) == (200, told["job_id"])
    assert ada.post(place, content=users(3), headers={**CSV, **key}).status_code == 422
    done(api.engine, told["job_id"])
    by_admin = api.admin.post(place, content=users(4), headers=CSV)
    assert (by_admin.status_code, by_admin.json()["owner"]) == (202, "ada"), by_admin.text
    done(api.engine, by_admin.json()["job_id"])
    assert count(api.engine, "SELECT count(*) FROM users") == 3
    assert api.client("eve").post(place, content=users(5), headers=CSV).status_code == 404
    assert api.client("ada", Scope.READ).post(place, content=users(5), headers=CSV).status_code == 403
    replayed = ada.post(place)
    assert (replayed.status_code, replayed.json()["replay_of"]) == (202, first)
    assert uploads_left(api) == 0
    assert len(landed(api)) == 4
    details = count(api.engine, "SELECT count(*) FROM audit WHERE action = 'replay'")
    assert details == 3, json.dumps(told)
