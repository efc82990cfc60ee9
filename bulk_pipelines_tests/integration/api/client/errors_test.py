"""Errors of the client are those of the program, and it loads little."""

import subprocess
import sys

import httpx
import pytest

from bulk_pipelines import errors
from bulk_pipelines.api.problems import BY_ERROR, PROBLEMS, problem_of
from bulk_pipelines.client import Client
from bulk_pipelines.client.problems import error_of
from bulk_pipelines.imports.sent.digests import DigestMismatch
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_clients import SOME


def test_errors_are_those_of_the_program(api: Api, ada: Client) -> None:
    with pytest.raises(errors.InvalidInput) as wrong:
        ada.imports.submit(SOME, resource="users", on_error="sometimes")
    assert (wrong.value.field, str(wrong.value)) == ("on_error", f"on_error: {wrong.value.message}")
    assert vars(wrong.value)["status"] == 400
    assert vars(wrong.value)["request_id"]
    assert "Mend the field" in vars(wrong.value)["remedy"]
    with pytest.raises(errors.NotFound):
        ada.imports.get("J20200101_000001")
    with pytest.raises(errors.Forbidden):
        ada.jobs.submit(b"x", recipe="x", owner="eve")
    with Client(api.url, "bulk_0_x") as stranger, pytest.raises(errors.Unauthenticated):
        stranger.imports.get("J20200101_000001")
    with Client("http://127.0.0.1:9", patience=0.5) as away, pytest.raises(errors.Unavailable, match="127.0.0.1:9"):
        away.imports.get("J20200101_000001")
    with pytest.raises(errors.InvalidInput):
        Client("bulk.example.org")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_is_an_error(problem: str) -> None:
    known = PROBLEMS[problem]
    body = {"type": f"/problems/{problem}", "status": known.status, "detail": "field: why", "field": "field"}
    request = httpx.Request("GET", "http://server/x")
    error = error_of(httpx.Response(known.status, json=body, request=request))
    assert str(error) == "field: why"
    ours = {error for error, name in BY_ERROR.items() if name == problem} - {DigestMismatch}
    if ours - {errors.BulkError}:  # the server raises it
        assert problem_of(error) == problem
    plain = error_of(httpx.Response(known.status, text="<html>", request=request))
    assert isinstance(plain, errors.BulkError)
    assert "GET /x" in str(plain)


def test_the_client_loads_neither_a_database_driver_nor_dagster() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import bulk_pipelines.client, sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"dagster", "psycopg", "sqlalchemy", "fastapi", "pandas", "pyarrow"} & set(said)
