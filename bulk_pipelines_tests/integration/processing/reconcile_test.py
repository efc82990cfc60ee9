"""Rows matched by services of the Reconciliation API: in both versions, in batches, with what services get wrong."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said

RECIPE = """
[provider.service]
address = "{address}"
private = true
answer_seconds = 10
break_after = 0

[recipe.people]
type = "reconcile"
provider = "service"
entity_type = "Q5"
attempts = 2
not_found_attempts = 1
threshold = 0.9
margin = 0.1
floor = 0.2
{recipe}
properties = [{{ id = "P27", value = "{{country}}" }}]
variants = [{{ name = "name", query = "{{name}}" }}, {{ name = "other", query = "{{other}}" }}]
columns = [
    {{ header = "Name", input = "name" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "About", answer = "description" }},
    {{ header = "Variant", evidence = "variant" }},
    {{ header = "Why", evidence = "reason" }},
]
"""
STABLE = {"versions": ["0.2"], "name": "x", "identifierSpace": "http://x/", "schemaSpace": "http://y/"}
DRAFT = {"versions": ["1.0-draft"], "name": "x", "view": {"url": "http://x/{id}"}}


def found(name: str) -> list[dict[str, Any]]:
    def one(score: float, *, match: bool = False, number: int = 1) -> dict[str, Any]:
        about = {"description": f"about {name}", "type": [{"id": "Q5", "name": "human"}]}
        return {"id": f"{name}-{number}", "name": name, "score": score, "match": match} | about

    return {
        "Ann": [one(97), one(40, number=2)],
        "Bob": [one(60), one(58, number=2)],
        "Cid": [one(50, match=True), one(45, number=2)],
        "Dee": [one(10)],
    }.get(name, [])


def service(call: Call, version: str) -> Any:
    if not call.body:
        return STABLE if version == "0.2" else DRAFT
    if version == "0.2":
        queries = json.loads(parse_qs(call.body.decode())["queries"][0])
        return {key: {"result": found(each["query"])} for key, each in queries.items()}
    assert call.path == "/match"
    names = [each["conditions"][0]["propertyValue"] for each in json.loads(call.body)["queries"]]
    return {"results": [{"candidates": found(name)} for name in names]}


@pytest.mark.parametrize("version", ["0.2", "1.0-draft"])
def test_both_versions_in_batches(scene: Scene, version: str) -> None:
    with ProviderServer(lambda call: service(call, version)) as server:
        scene.declare(RECIPE.format(address=server.url, recipe="batch = 4"))
        rows = "name,other,country\nAnn,,Q183\nBob,,\nCid,,\nDee,,\nEve,Ann,\nFay,,\n,,\nAnn,,Q183\n"
        job = scene.done("people", source=scene.file(rows))
        bodies = [call.body for call in server.calls if call.body]
        assert len(bodies) == 3, "six different names in batches of four, and one other name"
        assert len(server.calls) == 4, "and the manifest once"
    outcomes = [(row["Name"], row["Outcome"], row["Id"], row["About"], row["Variant"]) for row in scene.grid(job)]
    assert outcomes == [
        ("Ann", "matched", "Ann-1", "about Ann", "name"),
        ("Bob", "ambiguous", "", "", "name"),
        ("Cid", "matched", "Cid-1", "about Cid", "name"),
        ("Dee", "no match", "", "", "name"),
        ("Eve", "matched", "Ann-1", "about Ann", "other"),
        ("Fay", "no match", "", "", "name"),
        ("", "skipped", "", "", ""),
        ("Ann", "matched", "Ann-1", "about Ann", "name"),
    ]
    if version == "0.2":
        asked = [each for body in bodies for each in json.loads(parse_qs(body.decode())["queries"][0]).values()]
        properties = [{"pid": "P27", "v": "Q183"}]
        assert {"query": "Ann", "type": "Q5", "limit": 5, "properties": properties} in asked
        assert {"query": "Bob", "type": "Q5", "limit": 5} in asked
    else:
        asked = [each for body in bodies for each in json.loads(body)["queries"]]
        conditions = [
            {"matchType": "name", "propertyValue": "Ann"},
            {"matchType": "property", "propertyId": "P27", "propertyValue": "Q183"},
        ]
        assert {"type": "Q5", "limit": 5, "conditions": conditions} in asked


def test_two_services_of_one_provider_keep_their_answers_apart(scene: Scene) -> None:
    def two(call: Call) -> Any:
        if call.path.startswith("/people"):
            return service(call, "0.2")
        if not call.body:
            return DRAFT
        assert call.path == "/places/match"
        return {"results": [{"candidates": []} for _ in json.loads(call.body)["queries"]]}

    with ProviderServer(two) as server:
        for path, outcome in (("people", "matched"), ("places", "no match"), ("people", "matched")):
            scene.declare(RECIPE.format(address=server.url, recipe=f'path = "{path}"'))
            job = scene.done("people", source=scene.file("name,other,country\nAnn,,\n"))
            assert [row["Outcome"] for row in scene.grid(job)] == [outcome]
        assert len(server.calls) == 4, "a manifest and an answer of each"


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ([], "without a manifest"),
        (STABLE | {"name": 5}, "no name"),
        (STABLE | {"versions": "0.2"}, "no list"),
        (STABLE | {"versions": ["0.3"]}, "speaks 0.3"),
        ({key: each for key, each in STABLE.items() if key != "schemaSpace"}, "no schemaSpace"),
        ({"versions": ["1.0-draft"], "name": "x"}, "no view"),
    ],
)
def test_a_manifest_that_is_wrong_fails_the_rows_at_once(scene: Scene, manifest: Any, why: str) -> None:
    with ProviderServer(lambda _: manifest) as server:
        scene.declare(RECIPE.format(address=server.url, recipe=""))
        job = scene.done("people", source=scene.file("name,other,country\nAnn,,\n"))
    (row,) = scene.rows(job)
    assert (row.status, row.attempt_count) == ("DLQ", 1)
    assert why in (row.error_message or "")


@pytest.mark.parametrize("wrong", [Said({"error": "maintenance"}), Said({}, 404)])
def test_a_wrong_manifest_is_not_kept(scene: Scene, wrong: Said) -> None:
    manifests: list[Any] = [wrong, STABLE]

    def moody(call: Call) -> Any:
        return service(call, "0.2") if call.body else manifests[0]

    with ProviderServer(moody) as server:
        scene.declare(RECIPE.format(address=server.url, recipe=""))
        assert scene.outcomes(scene.done("people", source=scene.file("name,other,country\nAnn,,\n"))) == ["failed"]
        del manifests[0]
        assert scene.outcomes(scene.done("people", source=scene.file("name,other,country\nAnn,,\n"))) == ["matched"]


def test_a_score_beyond_all_bounds_harms_no_other_row(scene: Scene) -> None:
    def huge(call: Call) -> Any:
        if not call.body:
            return STABLE
        queries = json.loads(parse_qs(call.body.decode())["queries"][0])
        return {
            key: {"result": [{"id": "x", "name": "x", "score": 10**400}] if each["query"] == "Bob" else found("Ann")}
            for key, each in queries.items()
        }

    with ProviderServer(huge) as server:
        scene.declare(RECIPE.format(address=server.url, recipe=""))
        job = scene.done("people", source=scene.file("name,other,country\nAnn,,\nBob,,\n"))
    assert [(row["Outcome"], row["Id"]) for row in scene.grid(job)] == [("matched", "Ann-1"), ("matched", "x")]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        {"q0": []},
        {"q0": {"result": {}}},
        {"q0": {"result": [5]}},
        {"q0": {"result": [{"id": 5, "name": "x", "score": 1}]}},
        {"q0": {"result": [{"id": "x", "name": None, "score": 1}]}},
        {"q0": {"result": [{"id": "x", "name": "x", "score": "1"}]}},
        {"q0": {"result": [{"id": "x", "name": "x"}]}},
        {"q0": {"result": [{"id": "x", "name": "x", "score": 1, "type": 5}]}},
    ],
)
def test_an_answer_that_the_specification_does_not_know(scene: Scene, answer: Any) -> None:
    with ProviderServer(lambda call: answer if call.body else STABLE) as server:
        scene.declare(RECIPE.format(address=server.url, recipe=""))
        job = scene.done("people", source=scene.file("name,other,country\nAnn,,\n"))
    (row,) = scene.rows(job)
    assert (row.status, row.attempt_count) == ("DLQ", 2), "it may pass, so it was tried again"
    assert "Reconciliation API" in (row.error_message or "")


@pytest.mark.parametrize("version", ["0.2", "1.0-draft"])
def test_a_query_that_is_refused_fails_its_own_row_alone(scene: Scene, version: str) -> None:
    def picky(call: Call) -> Any:
        return Said({}, 400) if b"Bad" in call.body else service(call, version)

    with ProviderServer(picky) as server:
        scene.declare(RECIPE.format(address=server.url, recipe="batch = 4"))
        names = ["Ann", "Bad", "Bob", "Cid", "Dee", "Eve", "Fay", "Badder", "Guy"]
        job = scene.done("people", source=scene.file("name,other,country\n" + "".join(f"{n},,\n" for n in names)))
        asked = [call for call in server.calls if call.body]
        assert len(asked) == 11, "five for each batch with a bad one, and one for the last"
    outcomes = ["matched", "failed", "ambiguous", "matched", "no match", "no match", "no match", "failed", "no match"]
    assert [row["Outcome"] for row in scene.grid(job)] == outcomes


@pytest.mark.parametrize("status", [500, 401])
def test_a_service_in_trouble_is_asked_no_more_and_keeps_what_it_said(scene: Scene, status: int) -> None:
    def failing(call: Call) -> Any:
        return Said({}, status) if b"Bob" in call.body else service(call, "0.2")

    with ProviderServer(failing) as server:
        scene.declare(RECIPE.format(address=server.url, recipe="batch = 1").replace("attempts = 2", "attempts = 1", 1))
        job = scene.done("people", source=scene.file("name,other,country\nAnn,,\nBob,,\nCid,,\n"))
        assert len([call for call in server.calls if call.body]) == 2
    assert [row["Outcome"] for row in scene.grid(job)] == ["matched", "failed", "failed"]


def test_a_service_that_throttles_a_batch(scene: Scene) -> None:
    calls = [0]

    def moody(call: Call) -> Any:
        calls[0] += bool(call.body)
        return Said({}, 429, {"Retry-After": "3600"}) if calls[0] == 1 and call.body else service(call, "0.2")

    with ProviderServer(moody) as server:
        scene.declare(
            RECIPE.format(address=server.url, recipe="").replace("answer_seconds", "patience = 0\nanswer_seconds")
        )
        job = scene.done("people", source=scene.file("name,other,country\nAnn,,\nBob,,\n"))
    assert [row["Outcome"] for row in scene.grid(job)] == ["matched", "ambiguous"]
    assert {row.attempt_count for row in scene.rows(job)} == {2}


# A service that others wrote.


@pytest.fixture(scope="module")
def programs() -> Path:
    """csv-reconcile of PyPI, in an environment of its own, because it wants other versions than we do."""
    folder = Path(tempfile.gettempdir()) / "bulk-tests-csv-reconcile"
    if not (folder / "bin" / "csv-reconcile").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        got = subprocess.run([folder / "bin" / "pip", "install", "-q", "csv-reconcile", "setuptools<81"])
        if got.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip("csv-reconcile cannot be had from PyPI here")
    return folder / "bin"


@pytest.fixture
def csv_reconcile(programs: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a service with three people."""
    (tmp_path / "people.tsv").write_text("id\tname\nQ1\tAda Lovelace\nQ2\tAlan Turing\nQ3\tGrace Hopper\n")
    subprocess.run([programs / "csv-reconcile", "init", "people.tsv", "id", "name"], cwd=tmp_path, check=True)
    port = free_port()
    log = tmp_path / "service.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [programs / "flask", "--app", "csv_reconcile", "run", "--port", str(port)],
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
    address = f"http://127.0.0.1:{port}"

    def serves() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return httpx.get(f"{address}/reconcile", timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        until(serves, "csv-reconcile serves", 60)
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_service_that_others_wrote(scene: Scene, csv_reconcile: str) -> None:
    scene.declare(RECIPE.format(address=csv_reconcile, recipe='path = "reconcile"').replace('entity_type = "Q5"\n', ""))
    rows = "name,other,country\nAda Lovelace,,\nalan turing,,\nNobody Atall,Grace Hopper,\nXqzw,,\n"
    job = scene.done("people", source=scene.file(rows))
    assert [(row["Outcome"], row["Id"], row["Variant"]) for row in scene.grid(job)] == [
        ("matched", "Q1", "name"),
        ("matched", "Q2", "name"),
        ("matched", "Q3", "other"),
        ("no match", "", "name"),
    ]
