"""The examples in docs/api.md run as they stand there, and /docs shows every endpoint."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pyarrow as pa

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import count, users
from bulk_pipelines_tests.scenes.api_items import products, shop

PAGE = (CHECKOUT / "docs" / "api.md").read_text()
SET_UP, *EXAMPLES, COMMANDS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_run(api: Api, tmp_path: Path) -> None:
    shop(api)
    (tmp_path / "products.csv").write_text(products("lamp"))
    assert "bulk keys create" in SET_UP
    assert COMMANDS.splitlines()[-1].startswith("bulk import ")  # remote_test.py gives it to a server that has workers
    (tmp_path / "users.csv").write_bytes(users(1, 2, 3))
    script = "set -euo pipefail\n" + "\n".join(EXAMPLES)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "API": api.url, "KEY": api.text("ada")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert count(api.engine, "SELECT count(*) FROM job") == 8
    assert count(api.engine, "SELECT count(*) FROM job_item WHERE kind = 'process_lookup'") == 1
    assert (tmp_path / "errors.csv").read_text() == "line,codes,record,reasons\n"
    assert (tmp_path / "readers.ndjson").exists()
    assert pa.ipc.open_stream((tmp_path / "users.arrows").read_bytes()).read_all().column_names[0] == "id"


def test_the_example_of_the_client_runs(api: Api, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "users.csv").write_bytes(users(1))
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**os.environ, "API": api.url, "KEY": api.text("ada")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(" pending")
    assert done.stdout.splitlines()[1].startswith("on_error on_error: ")


def test_the_pages_name_every_endpoint_and_load_nothing_from_elsewhere(api: Api) -> None:
    described = httpx.get(f"{api.url}/openapi.json").json()
    page = httpx.get(f"{api.url}/docs").text
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert f"<code>{method.upper()} {path}</code>" in page
            assert operation["summary"], path
            assert operation["description"], path
            assert "422" not in operation["responses"] or "Problem" in str(operation["responses"]["422"])
    for name in ("/docs", "/problems/not-found"):
        text = httpx.get(api.url + name).text
        assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", text)
        assert "<script" not in text
