"""A value that has not the form that /openapi.json declares is refused, and never taken for something like it."""

from typing import Any

import pytest

from bulk_pipelines_tests.scenes.api import Api

LISTS = ("/v1/imports", "/v1/exports", "/api/jobs", "/api/pending", "/api/audit")
HOOK = {"address": "https://example.org/hook", "types": ["job.failed"]}


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("given", ["0.5", "1700000000", "-1", "yesterday", "", "NaN", "Infinity"])
def test_a_number_is_no_time(api: Api, path: str, given: str) -> None:
    for name in ("from", "to"):
        answer = api.client("ada").get(path, params={name: given})
        assert answer.status_code == 400, answer.text
        assert (answer.json()["field"], "is no time such as" in answer.json()["detail"]) == (name, True)


@pytest.mark.parametrize("path", LISTS)
def test_a_time_without_a_zone_is_utc(api: Api, path: str) -> None:
    for given in ("2026-01-10", "2026-01-10T12:00:00", "2026-01-10T12:00:00Z", "2026-01-10T12:00:00.5+14:00"):
        answer = api.client("ada").get(path, params={"from": given, "to": given})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/subscriptions", HOOK | {"all_owners": 0}, "all_owners"),
        ("/v1/subscriptions", HOOK | {"private": "false"}, "private"),
        ("/v1/subscriptions", HOOK | {"error_rate": "0.5"}, "error_rate"),
        ("/v1/subscriptions", HOOK | {"types": "job.failed"}, "types"),
        ("/v1/exports", {"resource": "users", "escape_formulas": "yes"}, "escape_formulas"),
        ("/v1/exports", {"resource": "users", "priority": "5"}, "priority"),
        ("/v1/exports", {"resource": "users", "priority": True}, "priority"),
        ("/v1/imports", {"resource": "users", "url": "https://example.org/users.csv", "no_header": 1}, "no_header"),
        ("/v1/imports", {"resource": "users", "url": "https://example.org/users.csv", "skip_lines": "2"}, "skip_lines"),
        ("/api/jobs", {"recipe": "products", "url": "https://example.org/rows.csv", "priority": "1"}, "priority"),
    ],
)
def test_a_body_is_not_converted(api: Api, path: str, body: dict[str, Any], field: str) -> None:
    answer = api.client("ada").post(path, json=body)
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text


HALF = "\\ud800x"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/exports", f'{{"resource": "{HALF}"}}'),
        ("/v1/exports", f'{{"table": "{HALF}"}}'),
        ("/v1/exports", f'{{"resource": "users", "fields": "{HALF}"}}'),
        ("/v1/exports", f'{{"resource": "users", "filters": {{"{HALF}": 1}}}}'),
        ("/v1/exports", f'{{"resource": "users", "filters": {{"name": "{HALF}"}}}}'),
        ("/v1/exports", f'{{"resource": "users", "where": ["name={HALF}"]}}'),
        ("/v1/exports", f'{{"resource": "users", "order": "{HALF}"}}'),
        ("/v1/subscriptions", f'{{"address": "https://example.org/", "types": ["{HALF}"]}}'),
        ("/v1/subscriptions", f'{{"{HALF}": 1}}'),
        ("/jobs", f'{{"inputs": [{{"indexKey": "{HALF}", "effectiveDate": 20240202, "asofindicator": "CLS"}}]}}'),
        ("/jobs", f'{{"inputs": [{{"{HALF}": 1}}]}}'),
        ("/v1/imports", f'{{"resource": "{HALF}", "url": "https://example.org/users.csv"}}'),
        ("/api/jobs", f'{{"recipe": "{HALF}", "url": "https://example.org/rows.csv"}}'),
    ],
)
def test_half_a_character_is_refused(api: Api, path: str, body: str) -> None:
    """JSON can spell what no text can hold, and an answer that quotes it must be one all the same."""
    answer = api.admin.post(path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["status"]) == (400, 400), answer.text


@pytest.mark.parametrize("kind", ["job.failed", "dead_letters"])
def test_words_of_a_list_are_taken_as_they_are(api: Api, kind: str) -> None:
    """Enumerations are words in JSON: to check them strictly would refuse all of them."""
    answer = api.client("ada").post("/v1/subscriptions", json=HOOK | {"types": [kind]})
    assert answer.status_code == (201 if kind == "job.failed" else 400), answer.text
