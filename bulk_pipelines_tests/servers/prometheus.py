"""A real Prometheus (Debian's `prometheus`) on loopback, with the configuration that the documentation has."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.servers.processes import free_port, wait_until

SHIPPED = CHECKOUT / "docs" / "monitoring"
TARGET = "127.0.0.1:8080"


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here (Debian's package prometheus)")
    return found


@dataclass(frozen=True)
class Prometheus:
    url: str

    def ask(self, call: str, **values: str | float) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{call}", params=values, timeout=30)
        found = answer.json()
        assert found["status"] == "success", f"{values}: {json.dumps(found)[:500]}"
        return found["data"]

    def is_up(self) -> bool:
        return any(each["value"][1] == "1" for each in self.ask("query", query='up{job="bulk"}')["result"])


@contextmanager
def scraping(target: str, folder: Path, key: str) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped files; only the address, the key and the times are the test's."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (SHIPPED / "prometheus.yml").read_text()
    assert TARGET in text
    text = text.replace(TARGET, target).replace("15s", "1s")
    text = text.replace(
        "    # authorization:\n    #   credentials_file:", "    authorization:\n      credentials_file:"
    )
    (folder / "bulk.key").write_text(key)
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(SHIPPED / "rules.yml", folder / "rules.yml")
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        running = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    found = Prometheus(f"http://127.0.0.1:{port}")
    try:
        wait_until(lambda: is_ready(running, found), "Prometheus is ready", 60)
        yield found
    finally:
        running.terminate()
        running.wait()


def is_ready(running: "subprocess.Popen[bytes]", found: Prometheus) -> bool:
    assert running.poll() is None, "Prometheus has ended"
    try:
        return httpx.get(f"{found.url}/-/ready").status_code == 200
    except httpx.TransportError:
        return False
