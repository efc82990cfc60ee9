"""What the command line can, over HTTP: tables, previews, and records that somebody has mended."""

import gzip
import io
import json

import pytest
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
    assert extra["remedy"] == {"ignore": ["x"]} or extra["remedy"]
    monkeypatch.setattr(previewing, "LARGEST", 1_000)
    content = users(*range(50))
    large = ada.post(look, params={"resource": "users"}, content=content, headers=CSV)
    assert (large.status_code, large.json()["type"]) == (413, "/problems/too-large")
    cut = ada.post(look, params={"resource": "users", "cut": "true"}, content=content[:900], headers=CSV)
    assert (cut.status_code, cut.json()["rejected"]) == (200, 0), "the line that was cut is no record"
    wrong = ada.post(look, params={"resource": "users"}, json={"url": "https://example.org"})
    assert wrong.status_code == 415, wrong.text
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
