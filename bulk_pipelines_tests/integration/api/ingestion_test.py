"""Dropped files are looked for when somebody asks."""

import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import count, done, users


def test_a_dropped_file_is_taken_and_put_away(api: Api) -> None:
    inbox = api.settings.home / "inbox"
    inbox.mkdir(parents=True)
    (inbox / "users.csv").write_bytes(users(1, 2))
    (scanned,) = api.admin.post("/api/ingestion/scan").json()["sources"]
    assert (scanned["source"], scanned["seen"], scanned["taken"], scanned["skipped"]) == ("inbox", 1, 1, None)
    (key,) = scanned["jobs"]
    assert key in scanned["message"]
    done(api.engine, key)
    (again,) = api.admin.post("/api/ingestion/scan", params={"source": "inbox"}).json()["sources"]
    assert (again["taken"], again["putAway"]) == (0, 1)
    assert not (inbox / "users.csv").exists()
    assert len([each for each in inbox.rglob("users*") if each.is_file()]) == 1
    assert count(api.engine, "SELECT count(*) FROM users") == 2
    entries = api.admin.get("/api/audit", params={"action": "scan"}).json()["entries"]
    assert [each["details"] for each in entries] == [{"source": "inbox"}, {}]


def test_the_command_looks_as_well(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", api.settings.database_url)
    inbox = api.settings.home / "inbox"
    inbox.mkdir(parents=True)
    (inbox / "users.csv").write_bytes(users(1))
    said = CliRunner().invoke(main, ["drops", "scan", "--source", "inbox"], catch_exceptions=False).output
    assert said.startswith("inbox: 1 file seen, 1 taken, as J")


def test_an_unknown_source_is_said(api: Api) -> None:
    refused = api.admin.post("/api/ingestion/scan", params={"source": "partner"})
    assert refused.status_code == 404
    assert "there are inbox" in refused.json()["detail"]
