"""Whatever a request holds, the answer is one that /openapi.json declares, and no failure of ours. Schemathesis makes
the requests from that description: examples, the bounds of every parameter, what is drawn by chance, and sequences in
which one answer leads to the next request.

`SCHEMATHESIS_EXAMPLES=1000` draws a thousand requests for each operation, which takes hours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.api import events, preferences
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.api import serving_here
from bulk_pipelines_tests.scenes.api_items import shop
from bulk_pipelines_tests.scenes.today import SEED

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "5"))
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
LONG = re.compile(r"[^\s]{500,}")


@pytest.mark.long
@pytest.mark.timeout(max(600, 60 * EXAMPLES))
def test_every_answer_is_a_declared_one(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("BULK_HOME", str(home))
    # News end soon, and nobody waits for long.
    monkeypatch.setattr(events, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(preferences, "LONGEST", 1)
    with serving_here(engine, home, owner_jobs=1_000_000, owner_items=1_000_000_000) as api:
        shop(api)
        text = api.text("root", Scope.ADMIN)
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("st"),
                "run",
                f"{api.url}/openapi.json",
                *("--header", f"Authorization: Bearer {text}"),
                *("--checks", ",".join(CHECKS)),
                *("--max-examples", str(EXAMPLES)),
                *("--seed", str(SEED)),
                *("--request-timeout", "60"),
                *("--suppress-health-check", "all"),
                *("--warnings", "off"),
                "--continue-on-failure",
                "--no-color",
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(CHECKOUT),
                "SCHEMATHESIS_HOOKS": "bulk_pipelines_tests.chaos.api.file_bodies",
            },
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, LONG.sub("…", ran.stdout)[-20_000:] + ran.stderr[-5_000:]
