"""What strangers send: answers that are too much to keep, queries of a database, and requests to our own references."""

import gzip
import io
import json
import tracemalloc
from typing import Any

import httpx
import openpyxl
import pyarrow.parquet as pq
import pytest
from openpyxl.utils.escape import unescape

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.rate_limit import Use
from bulk_pipelines.errors import InvalidInput, Transient
from bulk_pipelines.processing.providers.client import Client, Request
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.report import grid
from bulk_pipelines.processing.report.grid import GridFormat
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.integration.processing.serving_test import declare
from bulk_pipelines_tests.scenes.api import serving_here
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.servers.provider_server import Handler, ProviderServer

RECONCILE = """
[provider.shop]
address = "{address}"
contact = "tests@example.org"
private = true

[recipe.services]
type = "reconcile"
provider = "shop"
attempts = 2
threshold = 0.9
variants = [{{ name = "name", query = "{{title}}" }}]
columns = [{{ header = "Name", evidence = "name" }}, {{ header = "Outcome", evidence = "outcome" }}]
"""
MANIFEST = {"versions": ["0.2"], "name": "x", "identifierSpace": "http://x/", "schemaSpace": "http://x/"}


@pytest.mark.parametrize("empty", [b"\0" * 65_536, b"\x00\x00\x00\xff\xff" * 13_107], ids=["garbage", "empty blocks"])
def test_nothing_behind_a_packed_answer_is_kept(empty: bytes) -> None:
    """A gzip stream has an end. What comes behind it, or packs nothing at all, is no answer and fills no memory."""
    packed = gzip.compress(b'{"items": []}')
    begun = packed if empty[0] == empty[1] == empty[-1] else packed[:10]
    sent = []

    def send(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + begun)
        for _ in range(1_500):
            handler.wfile.write(empty)
            sent.append(len(empty))
        handler.close_connection = True

    with ProviderServer(lambda _: send) as server:
        given = {"address": server.url, "private": True, "answer_seconds": 30, "answer_bytes": 100_000}
        client = Client(Provider.parse("shop", given), Settings())
        tracemalloc.start()
        with pytest.raises(Transient):
            client.call(Request("x"), Use(1))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        client.close()
    assert most < 20_000_000
    assert sum(sent) < 50_000_000, "and it is not read to its end"


@pytest.mark.parametrize(
    "wide",
    [
        {"name": "n" * 500_000},
        {"features": [{"id": "f", "value": "v" * 500_000}]},
        {"description": "d" * 500_000},
        {"type": [{"id": "t" * 500_000}]},
    ],
    ids=lambda each: next(iter(each)),
)
def test_candidates_that_are_too_large_cost_their_own_row(scene: Scene, wide: dict[str, Any]) -> None:
    def answer(call: Any) -> Any:
        if not call.body:
            return MANIFEST
        batch = json.loads(httpx.QueryParams(call.body.decode())["queries"])
        plain = {"id": "1", "name": "fine", "score": 100, "match": True}
        large = [plain | {"score": 60 - n, "match": False, "id": str(n)} | wide for n in range(5)]
        return {name: {"result": large if query["query"] == "large" else [plain]} for name, query in batch.items()}

    with ProviderServer(answer) as server:
        scene.declare(RECONCILE.format(address=server.url))
        job = scene.done("services", source=scene.file("title\nsmall\nlarge\n"))
        small, large = scene.grid(job)
    assert small == {"Name": "fine", "Outcome": "matched"}
    assert large["Outcome"] == "ambiguous", large


NASTY = 'Ünsere "Firmen"; DROP TABLE job; --'


def test_tables_with_nasty_names(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")
    with transaction(scene.pool) as connection:
        quoted = NASTY.replace('"', '""')
        connection.execute(
            f'CREATE SCHEMA "My.Shop"; CREATE TABLE "My.Shop"."{quoted}" (title text, "a.b" int)'.encode()
        )
        connection.execute(f'INSERT INTO "My.Shop"."{quoted}" VALUES (\'x\', 1)'.encode())
    job = scene.planned(table=f'"My.Shop"."{quoted}"')
    assert scene.inputs(job) == [{"title": "x", "a.b": 1}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT 'a' AS title, 'x' AS _unreadable", "_unreadable"),
        ("SELECT 'a' AS title, 'x' AS _line", "_line"),
        ("SELECT 'a' AS title; DROP TABLE job", "."),
        ("SELECT 'a' AS title) AS x; DELETE FROM job; --", "."),
        ("SELECT pg_sleep(0)::text AS title, nextval('job_job_id_seq')", "."),
        ("WITH gone AS (DELETE FROM job RETURNING 1) SELECT 'a' AS title", "."),
    ],
)
def test_queries_that_are_none(scene: Scene, query: str, why: str) -> None:
    scene.shop("http://127.0.0.1:9/")
    with pytest.raises(InvalidInput, match=why):
        scene.planned(query=query)


def test_a_row_of_a_query_that_is_too_large_fails_alone(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")
    job = scene.planned(query="SELECT repeat('x', n * 2000000) || 'a' AS title FROM generate_series(0, 1) AS n")
    first, second = scene.inputs(job)
    assert first == {"title": "a"}
    assert "larger than" in second["_unreadable"]


HALF = "\\ud800"


def test_half_a_surrogate_is_refused_or_found_nowhere(scene: Scene) -> None:
    with serving_here(scene.pool, scene.folder / "home") as api:
        declare(scene, api, "")
        url = f"{api.url}/reconcile/companies"
        bodies = [
            f'{{"q0": {{"query": "{HALF}"}}}}',
            f'{{"{HALF}": {{"query": "Blue"}}}}',
            f'{{"q0": {{"query": "x", "type": "{HALF}"}}}}',
            f'{{"q0": {{"query": "x", "properties": [{{"pid": "country", "v": "{HALF}"}}]}}}}',
            f'{{"q0": {{"query": "x", "properties": [{{"pid": "{HALF}", "v": "{HALF}"}}]}}}}',
            f'{{"q0": {{"query": "x", "properties": [{{"pid": "website", "v": "http://[::{HALF}"}}]}}}}',
            '{"q0": {"query": "x", "properties": [{"pid": "website", "v": "http://[::1"}]}}',
            '{"q0": {"query": "\\u0000", "limit": 1e308}}',
            json.dumps({"q0": {"query": "ab " * 300_000}}),
            "[" * 100_000,
        ]
        found = [httpx.post(url, data={"queries": body}, timeout=60).status_code for body in bodies]
        ids = f'{{"ids": ["{HALF}"], "properties": [{{"id": "city"}}]}}'
        found.append(httpx.post(url, data={"extend": ids}, timeout=60).status_code)
        draft = f"{url}/1.0-draft"
        for kind in ("name", "id"):
            body = f'{{"queries": [{{"conditions": [{{"matchType": "{kind}", "propertyValue": "{HALF}"}}]}}]}}'
            found.append(httpx.post(f"{draft}/match", content=body, timeout=60).status_code)
        found.append(httpx.post(f"{draft}/extend", content=ids, timeout=60).status_code)
        paths = ("/suggest/entity?prefix=%ED%A0%80", "/preview?id=%ED%A0%80", "/suggest/type?prefix=%00")
        found += [httpx.get(url + path, timeout=60).status_code for path in paths]
    assert max(found) < 500, found


def test_the_grid_holds_whatever_cells_are(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")
    titles = ["x" * 32_767, "=1+1", " spaces ", "a\x01b\x1f\x7f", "_x0041_", "😀\u202e", "0012", "line\nline\r\n"]
    job = scene.planned(source=scene.file("".join(json.dumps({"title": each}) + "\n" for each in titles), "r.ndjson"))
    assert [row["Title"] for row in scene.grid(job)] == titles
    parquet = b"".join(grid.written(scene.pool, job.job_key, GridFormat.PARQUET))
    assert pq.read_table(io.BytesIO(parquet)).column("Title").to_pylist() == titles
    book = openpyxl.load_workbook(io.BytesIO(b"".join(grid.written(scene.pool, job.job_key, GridFormat.XLSX))))
    assert book.active is not None
    found = [unescape(str(row[0])) for row in book.active.iter_rows(min_row=2, values_only=True)]
    assert found[:7] == titles[:7]


def test_a_cell_that_no_workbook_holds_is_named(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")
    job = scene.planned(source=scene.file(f"title\n{'x' * 32_768}\n"))
    with pytest.raises(InvalidInput, match="Title: row 2 of the sheet"):
        b"".join(grid.written(scene.pool, job.job_key, GridFormat.XLSX))
