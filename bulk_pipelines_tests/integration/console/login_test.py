"""Logging in, sessions and the tokens of forms."""

import re
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.owners import keys
from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.api import ROOT, Api, serving_here
from bulk_pipelines_tests.scenes.api_imports import users
from bulk_pipelines_tests.scenes.browser import Visitor, words
from bulk_pipelines_tests.scenes.waiting import until


@pytest.fixture
def visitor(api: Api) -> Visitor:
    return Visitor(api, "ada")


def cookies(header: list[str]) -> dict[str, str]:
    return {line.partition("=")[0]: line for line in header}


def test_a_session_begins_with_a_key_and_its_cookie_is_for_this_browser_alone(api: Api) -> None:
    visitor = Visitor(api)
    answer = visitor.log_in(api.text("ada"), "/console/audit")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/audit")
    line = cookies(answer.headers.get_list("set-cookie"))["bulk_session"]
    assert "HttpOnly" in line
    assert "SameSite=Strict" in line
    assert "Path=/" in line
    assert api.text("ada").rpartition("_")[2] not in line
    assert visitor.open("/console/jobs").status_code == 200


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "/\\evil.example", "/v1/imports", ""])
def test_a_login_leads_to_a_page_of_the_console_only(api: Api, place: str) -> None:
    assert Visitor(api).log_in(api.text("ada"), place).headers["location"] == "/console/jobs"


@pytest.mark.parametrize("kind", ["revoked", "expired", "nonsense"])
def test_a_key_that_is_not_valid_begins_nothing(api: Api, kind: str) -> None:
    key = {"revoked": api.revoked("ada"), "expired": api.expired("ada"), "nonsense": "bulk_x_y"}[kind]
    visitor = Visitor(api)
    answer = visitor.log_in(key)
    assert answer.status_code == 401
    assert key not in answer.text
    assert "unknown, revoked or expired" in words(answer)
    assert visitor.open("/console/jobs").status_code == 303


def test_a_revoked_key_ends_its_sessions(api: Api, engine: Engine) -> None:
    key, text = api.key("ada")
    visitor = Visitor(api)
    visitor.log_in(text)
    assert visitor.open("/console/jobs").status_code == 200
    with transaction(api.engine) as connection:
        keys.revoke(connection, key.key_id, ROOT)
    until(lambda: visitor.open("/console/jobs").status_code == 303, "the session is over", 60)


def test_a_session_is_over_after_its_time(api: Api, visitor: Visitor) -> None:
    with transaction(api.engine) as connection:
        connection.execute("UPDATE console_session SET expires_at = now()")
    until(lambda: visitor.open("/console/jobs").status_code == 303, "the session is over", 60)
    led = visitor.open("/console/audit?actor=ada", follow_redirects=False).headers["location"]
    assert led == "/console/login?next=%2Fconsole%2Faudit%3Factor%3Dada"


def test_the_secret_of_a_session_changes_and_the_former_one_counts_for_a_minute(api: Api, visitor: Visitor) -> None:
    before = visitor.client.cookies["bulk_session"]
    old = "UPDATE console_session SET changed_at = now() - interval '1 hour' WHERE session_id = %s"
    with transaction(api.engine) as connection:
        connection.execute(old, [before.partition("_")[0]])

    def has_changed() -> bool:
        visitor.open("/console/jobs")
        return visitor.client.cookies["bulk_session"] != before

    until(has_changed, "the secret has changed", 60)
    late = Visitor(api)
    late.client.cookies.set("bulk_session", before)
    assert late.open("/console/jobs").status_code == 200
    with transaction(api.engine) as connection:
        connection.execute("UPDATE console_session SET changed_at = now() - interval '2 minutes'")
    until(lambda: late.open("/console/jobs").status_code == 303, "the former secret is refused", 60)
    assert visitor.open("/console/jobs").status_code == 200


def test_a_forged_cookie_is_nobody(api: Api, visitor: Visitor) -> None:
    session_id = visitor.client.cookies["bulk_session"].partition("_")[0]
    for text in (f"{session_id}_", f"{session_id}_x", "_", "x", "ü_ü", f"{session_id}'_--", session_id):
        forger = Visitor(api)
        answer = forger.open("/console/jobs", headers={"Cookie": f"bulk_session={text}".encode()})
        assert answer.status_code == 303


def test_logging_out_ends_the_session_at_once(api: Api, visitor: Visitor) -> None:
    other = Visitor(api)
    other.client.cookies.set("bulk_session", visitor.client.cookies["bulk_session"])
    assert visitor.send("/console/logout", page="/console/jobs").status_code == 303
    assert other.open("/console/jobs").status_code == 303
    entries = api.admin.get("/api/audit?actor=ada&size=2").json()["entries"]
    assert [each["action"] for each in entries] == ["log out", "log in"]


def test_a_form_of_another_browser_or_site_is_refused(api: Api, visitor: Visitor) -> None:
    token = visitor.token("/console/jobs")
    other = Visitor(api, "ada")
    assert other.client.post("/console/dlq", data={"token": token, "act": "redrive"}).status_code == 403
    strange = {"Sec-Fetch-Site": "cross-site"}
    answer = visitor.client.post("/console/dlq", data={"token": token, "act": "redrive all"}, headers=strange)
    assert answer.status_code == 403
    assert visitor.client.post("/console/login", data={"key": api.text("ada")}).status_code == 403


def test_a_session_reads_the_api_and_writes_there_only_with_the_token_of_a_page(api: Api, visitor: Visitor) -> None:
    assert visitor.open("/v1/imports").status_code == 200
    options = {"params": {"resource": "users"}, "content": users(1), "headers": {"Content-Type": "text/csv"}}
    refused = visitor.client.post("/v1/imports", **options)  # type: ignore[arg-type]
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")
    found = re.search(r'name="token" content="([0-9a-f]{64})"', visitor.open("/console/jobs").text)
    assert found
    options["headers"] = {"Content-Type": "text/csv", "X-CSRF-Token": found[1]}
    assert visitor.client.post("/v1/imports", **options).status_code == 202  # type: ignore[arg-type]


def test_without_keys_the_console_is_open_on_loopback_and_says_so(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path / "home") as api:
        visitor = Visitor(api)
        page = visitor.open("/console/jobs")
        assert page.status_code == 200
        assert "everybody on this machine may do everything here" in words(page)
        assert visitor.open("/console/jobs", headers={"Host": "evil.example"}).status_code == 303
        assert visitor.client.post("/console/dlq", data={"act": "redrive all"}).status_code == 403
        assert visitor.send("/console/dlq", {"act": "redrive all"}, page="/console/new/import").status_code == 303
        api.key("ada")
        assert visitor.open("/console/jobs").status_code == 303


def test_behind_https_the_cookie_is_for_https_only(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path / "home", api_proxies="127.0.0.1") as api:
        visitor = Visitor(api)
        visitor.client.headers["X-Forwarded-Proto"] = "https"
        line = visitor.open("/console/login").headers["set-cookie"]
        assert line.startswith("bulk_form=")
        assert "Secure" in line
