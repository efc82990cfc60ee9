"""Who is let in, and as whom."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines_tests.scenes.api import ROOT, Api, bearer, serving_here
from bulk_pipelines_tests.scenes.waiting import until


def status(api: Api, **headers: str) -> int:
    return httpx.get(f"{api.url}/api/audit", headers=headers).status_code


def test_without_any_key_this_machine_is_let_in_and_pages_from_elsewhere_are_not(api: Api) -> None:
    port = api.settings.api_port
    assert status(api) == 200
    assert status(api, Host=f"localhost:{port}", Origin=f"http://localhost:{port}") == 200
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": f"rebound.example:{port}"},
        {"Host": f"rebound.example:{port}", "Origin": f"http://rebound.example:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Authorization": "Basic cm9vdDp4"},
        {"Authorization": "Bearer bulk_0_0"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "["},
        {"Host": "[::1"},
        {"Host": "127.0.0.1:x]"},
        {"Host": "", "Origin": "http://["},
        {"Origin": "http://["},
        {"Origin": "http://[x]"},
    ):
        assert status(api, **headers) == 401, headers
    api.key("ada")
    assert status(api) == 401, "from the first key on, nobody is let in without one"


def test_a_key_that_is_revoked_still_keeps_strangers_out(api: Api) -> None:
    api.revoked("ada")
    assert status(api) == 401


def test_a_revoked_key_is_refused_within_a_moment(api: Api) -> None:
    key, text = api.key("ada")
    assert status(api, **bearer(text)) == 200
    with transaction(api.engine) as connection:
        keys.revoke(connection, key.key_id, ROOT)
    until(lambda: status(api, **bearer(text)) == 401, "the key is refused", 5)


@pytest.mark.parametrize("text", ["", "bulk", "bulk_", "bulk__", "bulk_%_x", "bulk_é_x", "x" * 10_000, "bulk_\x00_a"])
def test_what_is_no_key_is_refused(api: Api, text: str) -> None:
    with transaction(api.engine) as connection:
        assert keys.verified(connection, text) is None


def test_only_the_hash_of_a_key_is_kept(api: Api) -> None:
    key, text = api.key("ada")
    with transaction(api.engine) as connection:
        row = connection.execute("SELECT api_key::text FROM api_key").fetchone()
        assert row is not None
        assert text.split("_", 2)[2] not in row[0]
        almost = text[:-1] + ("A" if text[-1] != "A" else "B")
        assert keys.verified(connection, almost) is None
        assert keys.verified(connection, text) == key


def test_a_key_must_belong_to_somebody_and_end_in_the_future(api: Api) -> None:
    for owner in ("", "  ", "x" * 2_000, "a\0b"):
        with pytest.raises(InvalidInput):
            api.key(owner)
    with pytest.raises(InvalidInput, match="expires"):
        api.key("ada", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(NotFound), transaction(api.engine) as connection:
        keys.revoke(connection, "nobody", ROOT)


def test_a_trusted_proxy_names_the_user_and_nobody_else_does(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path, api_proxies="127.0.0.0/8, ::1", api_admins="root") as api:
        assert status(api) == 401, "a proxy that names nobody is let in as nobody"
        named = {"X-Forwarded-User": "ada"}
        assert status(api, **named) == 200
        assert httpx.get(f"{api.url}/api/audit", headers=named, params={"owner": "eve"}).json()["entries"] == []
    with serving_here(engine, tmp_path, api_proxies="10.1.2.3", api_admins="root") as api:
        assert status(api, **{"X-Forwarded-User": "root"}) == 401


def test_the_address_is_the_last_one_that_a_proxy_vouches_for(engine: Engine, tmp_path: Path) -> None:
    said = {"X-Forwarded-User": "ada", "Content-Type": "application/json"}
    body = b'{"resource": "users", "url": "https://example.org/users.csv"}'
    for trusted, forwarded, address in (
        ("127.0.0.1", "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("127.0.0.1, 10.0.0.0/8", "6.6.6.6, 203.0.113.9, 10.0.0.7", "203.0.113.9"),
        ("127.0.0.1", "6.6.6.6, nonsense", "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
    ):
        with serving_here(engine, tmp_path, api_proxies=trusted) as api:
            headers = {**said, "X-Forwarded-For": forwarded}
            made = httpx.post(f"{api.url}/v1/imports", content=body, headers=headers)
            assert made.status_code == 202, made.text
            job = made.json()["job_id"]
            (entry,) = httpx.get(f"{api.url}/api/audit", params={"job": job}, headers=said).json()["entries"]
            assert (entry["actor"], entry["ip_address"]) == ("ada", address)


def test_headers_that_are_there_twice_deceive_nobody(engine: Engine, tmp_path: Path) -> None:
    """What a client sent itself stands before what the proxy adds, be it in a line of its own."""
    body = b'{"resource": "users", "url": "https://example.org/users.csv"}'
    with serving_here(engine, tmp_path, api_proxies="127.0.0.1") as api:
        said = [("X-Forwarded-User", "ada"), ("Content-Type", "application/json")]
        forwarded = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "203.0.113.9")]
        made = httpx.post(f"{api.url}/v1/imports", content=body, headers=said + forwarded)
        assert made.status_code == 202, made.text
        asked = {"job": made.json()["job_id"]}
        (entry,) = httpx.get(f"{api.url}/api/audit", params=asked, headers=said[:1]).json()["entries"]
        assert entry["ip_address"] == "203.0.113.9"
        for second in ("root", "ada", ""):
            twice = httpx.get(f"{api.url}/api/audit", headers=[*said[:1], ("X-Forwarded-User", second)])
            assert (twice.status_code, twice.json()["type"]) == (401, "/problems/unauthenticated"), second


def test_keys_are_audited(api: Api) -> None:
    api.revoked("ada")
    found = api.admin.get("/api/audit").json()["entries"]
    done = [(each["actor"], each["action"], each["owner"]) for each in found]
    assert done == [("root", "create key", "root"), ("root", "revoke key", "ada"), ("root", "create key", "ada")]
    mine = api.client("ada", Scope.READ).get("/api/audit").json()["entries"]
    assert {each["owner"] for each in mine} == {"ada"}
