"""Whatever a request holds, the answer is one that /openapi.json declares, and no failure of ours. Schemathesis makes
the requests from that description: examples, the bounds of every parameter, what is drawn by chance, and sequences in
which one answer leads to the next request. Keys of several scopes ask, because what is refused must be declared, too.

`SCHEMATHESIS_EXAMPLES=1000` draws a thousand requests for each operation, which takes an hour."""

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
from bulk_pipelines_tests.scenes.today import SEED, one_of

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "5"))
LEFT_OUT = """
[checks.positive_data_acceptance]
enabled = false

[[operations]]
include-name = ["GET /v1/exports", "GET /v1/jobs/events"]
checks = { negative_data_rejection = { enabled = false } }

[[operations]]
include-name = "POST /v1/imports/preview"
checks = { allow_header_conformance = { enabled = false } }

[[operations]]
include-name = "POST /api/jobs/{job_id}/kickoff"
checks = { not_a_server_error = { expected-statuses = ["2xx", "3xx", "4xx", "503"] } }
"""
"""The checks that are off; all others are on. The first wants every request of the declared form to be accepted; a form
cannot say that a cursor is one of ours, that a job is of the kind asked for, or that only one of two fields may be
given. The second takes `where=false` and `kind=true` for wrong; in an address all is text, so they are lists with
one text. The third knows nothing of GET at the address of a preview, which asks for the import `preview`.
A kick-off fetches what the job works: where a web server cannot be found, it is answered with 503."""
LONG = re.compile(r"[^\s]{500,}")


@pytest.mark.long
@pytest.mark.timeout(max(600, 60 * EXAMPLES))
@pytest.mark.parametrize("scope", [Scope.ADMIN, Scope.WRITE, *one_of([Scope.READ, Scope.RECONCILE])])
def test_every_answer_is_a_declared_one(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: Scope
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("BULK_HOME", str(home))
    # News end soon, and nobody waits for long.
    monkeypatch.setattr(events, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(preferences, "LONGEST", 1)
    (tmp_path / "schemathesis.toml").write_text(LEFT_OUT)
    with serving_here(engine, home, owner_jobs=1_000_000, owner_items=1_000_000_000) as api:
        shop(api)
        text = api.text("root", scope)
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("st"),
                "run",
                f"{api.url}/openapi.json",
                *("--header", f"Authorization: Bearer {text}"),
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
    print(LONG.sub("…", ran.stdout)[-2_000:])
    assert ran.returncode == 0, LONG.sub("…", ran.stdout)[-20_000:] + ran.stderr[-5_000:]
