"""A reference as a service of the Reconciliation API, over real HTTP: every answer is checked by the specification's
own schemas, and our own client matches rows with it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.telemetry import logs
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.reconciliation import VERSIONS, check

COMPANIES = """id,name,former,about,industry,country,city,secret
1,Blue Bottle Coffee Inc,,coffee roaster,food;retail,us,Oakland,x
2,Deutsche Lampen GmbH,Lampenwerk Ost,"<script>alert(1)</script>",lighting,de,Jena,y
3,Deutsche Lampen AG,,,lighting,at,Wien,z
"""
RECIPE = """
[recipe.companies]
type = "match"
says = "Companies of the register"
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [{{ header = "City", answer = "city" }}]

[recipe.companies.reference]
file = "{file}"
id = "id"
names = ["name", "former"]
description = "about"
types = ["industry"]
countries = ["country"]

[provider.ours]
address = "{address}/reconcile"
private = true

[recipe.remote]
type = "reconcile"
provider = "ours"
path = "companies{version}"
properties = [{{ id = "country", value = "{{country}}" }}]
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [
    {{ header = "Company", input = "company" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "About", answer = "description" }},
]
"""


@pytest.fixture
def served(scene: Scene) -> Iterator[Api]:
    with serving_here(scene.pool, scene.folder / "home") as api:
        declare(scene, api, "")
        yield api


def declare(scene: Scene, api: Api, version: str) -> None:
    file = scene.file(COMPANIES, "companies.csv")
    scene.declare(RECIPE.format(file=file, address=api.url, version=version))


class Client:
    """A client of one version."""

    def __init__(self, api: Api, version: str) -> None:
        self.version = version
        root = f"{api.url}/reconcile/companies" + ("" if version == "0.2" else f"/{version}")
        self.http = httpx.Client(timeout=60)
        self.root = root

    def get(self, schema: str, path: str = "", **params: Any) -> Any:
        answer = self.http.get(self.root + path, params=params)
        assert answer.status_code == 200, answer.text
        check(self.version, schema, answer.json())
        return answer.json()

    def match(self, **query: Any) -> list[dict[str, Any]]:
        """Ask one query: `name`, and properties."""
        name = query.pop("name")
        if self.version == "0.2":
            batch: Any = {"q0": {"query": name, "properties": [{"pid": p, "v": v} for p, v in query.items()]}}
            check("0.2", "reconciliation-query-batch", batch)
            answer = self.http.post(self.root, data={"queries": json.dumps(batch)})
        else:
            conditions = [{"matchType": "name", "propertyValue": name}]
            conditions += [{"matchType": "property", "propertyId": p, "propertyValue": v} for p, v in query.items()]
            batch = {"queries": [{"conditions": conditions}]}
            check(self.version, "reconciliation-query-batch", batch)
            answer = self.http.post(f"{self.root}/match", json=batch)
        assert answer.status_code == 200, answer.text
        check(self.version, "reconciliation-result-batch", answer.json())
        found = answer.json()
        result: list[dict[str, Any]] = (
            found["q0"]["result"] if self.version == "0.2" else found["results"][0]["candidates"]
        )
        return result

    def extend(self, ids: list[str], *properties: str) -> Any:
        query = {"ids": ids, "properties": [{"id": each} for each in properties]}
        check(self.version, "data-extension-query", query)
        if self.version == "0.2":
            answer = self.http.post(self.root, data={"extend": json.dumps(query)})
        else:
            answer = self.http.post(f"{self.root}/extend", json=query)
        if answer.status_code == 200:
            check(self.version, "data-extension-response", answer.json())
        return answer


@pytest.fixture(params=VERSIONS)
def client(served: Api, request: pytest.FixtureRequest) -> Client:
    return Client(served, request.param)


def test_everything_that_a_client_asks(client: Client) -> None:
    manifest = client.get("manifest")
    assert manifest["name"] == "Companies of the register"
    assert client.version in manifest["versions"]
    (best, *_) = client.match(name="Blue Bottle Coffee")
    assert (best["id"], best["match"], best["type"][0]["id"]) == ("1", True, "food")
    assert [each["id"] for each in client.match(name="Deutsche Lampen", country="at") if each["match"]] == ["3"]
    assert not any(each["match"] for each in client.match(name="Deutsche Lampen"))
    assert client.match(name="") == client.match(name="qqqq zzzz") == []

    suggested = client.get("suggest-entities-response", "/suggest/entity", prefix="deut")["result"]
    assert {each["id"] for each in suggested} == {"2", "3"}
    types = client.get("suggest-types-response", "/suggest/type", prefix="li")["result"]
    assert [each["id"] for each in types] == ["lighting"]
    properties = client.get("suggest-properties-response", "/suggest/property", prefix="c")["result"]
    assert {each["id"] for each in properties} >= {"country", "city"}
    path = "/properties" if client.version == "0.2" else "/extend/propose"
    proposed = client.get("data-extension-property-proposal", path, type="lighting", limit=3)
    assert len(proposed["properties"]) == 3

    shown = client.extend(["2", "nobody"], "city", "industry").json()
    rows = (
        shown["rows"]
        if client.version == "0.2"
        else {row["id"]: {each["id"]: each["values"] for each in row["properties"]} for row in shown["rows"]}
    )
    assert rows == {
        "2": {"city": [{"str": "Jena"}], "industry": [{"str": "lighting"}]},
        "nobody": {"city": [], "industry": []},
    }
    assert client.extend(["2"], "secret").status_code == 400, "only what the recipe names is shown"


def test_the_preview_is_a_page_that_runs_nothing(client: Client) -> None:
    manifest = client.get("manifest")
    template = manifest["preview"].get("url", f"{client.root}/preview?id={{{{id}}}}")
    answer = client.http.get(template.replace("{{id}}", "2"))
    assert answer.status_code == 200
    assert "&lt;script&gt;alert(1)" in answer.text
    assert "<script" not in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "secret" not in answer.text
    assert client.http.get(template.replace("{{id}}", "nobody")).status_code == 404


@pytest.mark.parametrize("version", VERSIONS)
def test_our_own_client_matches_rows_with_it(scene: Scene, served: Api, version: str) -> None:
    declare(scene, served, "" if version == "0.2" else f"/{version}")
    rows = "company,country\nblue bottle coffee,\nDeutsche Lampen,AT\nDeutsche Lampen,\nxqzw,\n"
    job = scene.done("remote", source=scene.file(rows))

    assert [row.error_message for row in scene.rows(job)] == [None] * 3 + ["no candidate was found"]
    assert [(row["Id"], row["Outcome"]) for row in scene.grid(job)] == [
        ("1", "matched"),
        ("3", "matched"),
        ("", "ambiguous"),
        ("", "no match"),
    ]
    assert scene.grid(job)[0]["About"] == "coffee roaster"


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "", {"data": {"queries": "{"}}),
        ("POST", "", {"data": {"queries": "[" * 100_000}}),
        ("POST", "", {"data": {"queries": "[]"}}),
        ("POST", "", {"data": {"other": "{}"}}),
        ("POST", "", {"content": b"\xff\xfe", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}),
        ("POST", "", {"data": {"extend": '{"ids": ["\\u0000"], "properties": []}'}}),
        ("POST", "", {"data": {"extend": '{"ids": 5, "properties": []}'}}),
        ("POST", "/1.0-draft/match", {"content": b"no json"}),
        ("POST", "/1.0-draft/match", {"json": {"queries": [5]}}),
        ("POST", "/1.0-draft/extend", {"json": {"ids": ["1"], "properties": [{"id": 5}]}}),
        ("GET", "/suggest/entity", {"params": {"prefix": "a", "cursor": "-1"}}),
        ("GET", "/suggest/nothing", {"params": {"prefix": "a"}}),
    ],
)
def test_nonsense_is_refused_in_words(served: Api, method: str, path: str, options: dict[str, Any]) -> None:
    answer = httpx.request(method, f"{served.url}/reconcile/companies{path}", timeout=60, **options)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["detail"]


def test_only_references_are_served(served: Api) -> None:
    for name in ("remote", "nobody", "...", "a%2Fb"):
        assert httpx.get(f"{served.url}/reconcile/{name}", timeout=60).status_code == 404, name
    assert httpx.get(f"{served.url}/reconcile", timeout=60).json() == {"services": ["companies"]}


QUERIES = {"queries": json.dumps({"q0": {"query": "Blue Bottle Coffee"}})}


def test_pages_of_other_origins_ask_with_a_key(served: Api) -> None:
    url, foreign = f"{served.url}/reconcile/companies", {"Origin": "https://refine.example"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    preflight = httpx.options(url, headers=foreign | asked, timeout=60)
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    for version in VERSIONS:
        manifest = httpx.get(url + ("" if version == "0.2" else f"/{version}"), headers=foreign, timeout=60).json()
        told = manifest.pop("authentication")  # its schema is that of another specification: OpenAPI 2
        assert told.pop("description")
        assert told == {"type": "apiKey", "in": "header", "name": "Authorization"}
        check(version, "manifest", manifest)
    for strange in (foreign, foreign | {"Host": "127.0.0.1"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert httpx.post(url, data=QUERIES, headers=strange, timeout=60).status_code == 401, strange
        assert httpx.get(url, params=QUERIES, headers=strange, timeout=60).status_code == 401, strange
    answer = served.client("ada").get("/reconcile/companies", headers=foreign)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
    other = served.client("ada").get("/v1/imports", headers=foreign)
    assert "Access-Control-Allow-Origin" not in other.headers


def test_a_stranger_learns_of_no_recipe(served: Api) -> None:
    ada, strange = served.client("ada"), {"Origin": "null"}
    for version in ("", "/1.0-draft"):
        told = set()
        for name in ("companies", "remote", "nobody"):
            url = f"{served.url}/reconcile/{name}{version}"
            answer = httpx.get(url, headers=strange, timeout=60)
            told.add((answer.status_code, answer.text.replace(name, "NAME"), len(answer.headers)))
            for path, params in (("/suggest/entity", {"prefix": "a"}), ("/preview", {"id": "1"})):
                assert httpx.get(url + path, params=params, headers=strange, timeout=60).status_code == 401
            for send in (QUERIES, {"extend": "{}"}):
                asked = httpx.get(f"{served.url}/reconcile/{name}", params=send, headers=strange, timeout=60)
                assert asked.status_code == 401
        ((status, text, _),) = told
        assert status == 200
        assert "Companies of the register" not in text
        assert ada.get(f"/reconcile/companies{version}").json()["name"] == "Companies of the register"
        assert ada.get(f"/reconcile/nobody{version}").status_code == 404


def used_as_openrefine_does(manifest_url: str) -> None:
    """OpenRefine's page gets the manifest and suggestions, its server posts queries: without headers of ours."""
    page = {"Origin": "http://127.0.0.1:3333", "Sec-Fetch-Site": "same-site"}
    answer = httpx.get(manifest_url, headers=page, timeout=60)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
    manifest = answer.json()
    check("0.2", "manifest", manifest)
    assert "authentication" not in manifest
    found = httpx.post(manifest_url, data=QUERIES, timeout=60).json()["q0"]["result"]
    assert [each["id"] for each in found][:1] == ["1"]
    for kind in ("entity", "type", "property"):
        place = manifest["suggest"][kind]
        told = httpx.get(place["service_url"] + place["service_path"], params={"prefix": "c"}, headers=page, timeout=60)
        assert told.status_code == 200, told.text
    place = manifest["extend"]["propose_properties"]
    assert httpx.get(place["service_url"] + place["service_path"], headers=page, timeout=60).status_code == 200
    extend = {"extend": json.dumps({"ids": ["2"], "properties": [{"id": "city"}]})}
    assert httpx.post(manifest_url, data=extend, timeout=60).json()["rows"]["2"]["city"] == [{"str": "Jena"}]
    for address in (manifest["view"]["url"], manifest["preview"]["url"]):
        assert httpx.get(address.replace("{{id}}", "2"), timeout=60).status_code == 200


def test_openrefine_on_the_same_machine_needs_no_key(served: Api) -> None:
    url = f"{served.url}/reconcile/companies"
    used_as_openrefine_does(url)
    used_as_openrefine_does(url.replace("127.0.0.1", "localhost"))
    page = {"Origin": "http://127.0.0.1:3333"}
    assert httpx.get(f"{served.url}/v1/imports", headers=page, timeout=60).status_code == 401, (
        "references, nothing else"
    )


def test_openrefine_elsewhere_has_its_key_in_the_address(served: Api, caplog: pytest.LogCaptureFixture) -> None:
    key, wide = served.text("ada", Scope.RECONCILE), served.text("ada", Scope.READ)
    caplog.set_level("DEBUG", logs.ROOM)
    used_as_openrefine_does(f"{served.url}/reconcile/~{key}/companies")
    for refused, status in ((wide, 403), ("bulk_0_x", 401), ("x", 401), ("%0a", 401)):
        answer = httpx.get(f"{served.url}/reconcile/~{refused}/companies", timeout=60)
        assert answer.status_code == status, answer.text
    assert httpx.get(f"{served.url}/reconcile/~{key}", timeout=60).status_code == 403, "the list is for others"
    ours = "\n".join(each.getMessage() for each in caplog.records if each.name.startswith("bulk_pipelines"))
    assert "request answered" in ours
    assert key not in ours, "no line of our log has the key"
    header = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{served.url}/reconcile/companies", headers=header, timeout=60).status_code == 200
    for place in ("/v1/imports", "/reconcile", "/metrics", "/console/jobs"):
        assert httpx.get(served.url + place, headers=header, timeout=60).status_code == 403, place


def test_a_file_that_has_changed_is_served_anew(scene: Scene, served: Api) -> None:
    client = Client(served, "0.2")
    client.get("manifest")
    assert client.match(name="Newcomer Works") == []
    scene.file(COMPANIES + "4,Newcomer Works,,,,,,\n", "companies.csv")
    client.get("manifest")
    with transaction(scene.pool) as connection:
        assert connection.execute("SELECT count(*) FROM reference_row").fetchone() == (4,)
