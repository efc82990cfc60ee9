"""Imports of files that a request names by their addresses: who may name which, and how many."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.imports import requests
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_imports import (
    done,
    users,
)


def test_an_address_is_imported_and_nobody_reads_what_they_may_not(engine: Engine, tmp_path: Path) -> None:
    allowed, secret = tmp_path / "incoming", tmp_path / "secret.csv"
    allowed.mkdir()
    secret.write_bytes(users(1))
    (allowed / "users.csv").write_bytes(users(1, 2))
    (allowed / "link.csv").symlink_to(secret)
    with serving_here(engine, tmp_path / "home", api_folders=str(allowed), api_sources="s3://open/in") as api:

        def ask(owner: str, scope: Scope, url: Any) -> httpx.Response:
            with api.client(owner, scope) as client:
                return client.post("/v1/imports", json={"resource": "users", "url": url})

        assert ask("ada", Scope.WRITE, "https://example.org/users.csv").status_code == 202
        assert ask("ada", Scope.WRITE, "s3://open/in/users.csv").status_code == 202
        for url in (
            str(allowed / "users.csv"),
            f"file://{allowed}/users.csv",
            "s3://open/inner/users.csv",
            "s3://open/in/../x.csv",
            "s3://closed/in/users.csv",
            "ftp://inside/users.csv",
            "sftp://inside/users.csv",
            ["https://example.org/users.csv", "s3://closed/users.csv"],
            "/etc/passwd",
            "users.csv",
        ):
            answer = ask("ada", Scope.WRITE, url)
            assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden"), url
        assert ask("root", Scope.ADMIN, "s3://closed/users.csv").status_code == 202
        good = ask("root", Scope.ADMIN, str(allowed / "users.csv"))
        assert good.status_code == 202, good.text
        for url in (str(secret), f"{allowed}/../secret.csv", str(allowed), "/etc/passwd", "users.csv"):
            assert ask("root", Scope.ADMIN, url).status_code == 403, url
        assert ask("root", Scope.ADMIN, ["https://a.example/x", str(allowed / "users.csv")]).status_code == 400
        for body in (b"", b"[]", b"{", b'{"resource": "users"}', b'{"resource": "users", "url": "x", "shell": 1}'):
            with api.client("ada") as client:
                wrong = client.post("/v1/imports", content=body, headers={"Content-Type": "application/json"})
                assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/invalid-input"), body
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("BULK_HOME", str(tmp_path / "home"))
            assert done(engine, good.json()["job_id"]).status == "COMPLETED"
            through = ask("root", Scope.ADMIN, str(allowed / "link.csv"))
            assert through.status_code == 202
            with pytest.raises(Exception, match="leads out|link"):
                done(engine, through.json()["job_id"])


def test_one_request_names_so_many_files_at_most(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = api.client("ada")
    urls = [f"https://example.org/{number}.csv" for number in range(requests.MOST_FILES + 1)]
    answer = client.post("/v1/imports", json={"resource": "users", "url": urls})
    assert (answer.status_code, answer.json()["field"]) == (400, "url"), answer.text
    assert "10,000" in answer.json()["detail"]
    monkeypatch.setattr(requests, "MOST_FILES", 3)
    assert client.post("/v1/imports", json={"resource": "users", "url": urls[:3]}).status_code == 202
    assert client.post("/v1/imports", json={"resource": "users", "url": urls[:4]}).status_code == 400
