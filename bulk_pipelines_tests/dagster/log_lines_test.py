"""What a job tells from the API to the steps of its run: the lines bear one request and one trace, and Dagster's run
log has them as well."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.api_imports import HEADER, line
from bulk_pipelines_tests.scenes.installation import SLOW
from bulk_pipelines_tests.scenes.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
LOGS = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection {
    events { ... on MessageEvent { message } } } } }"""


def told(folder: Path) -> list[dict[str, Any]]:
    """Return all lines of JSON that any process of the installation has written."""
    found = []
    for path in folder.rglob("*"):
        if path.suffix in (".log", ".err") and path.is_file():
            lines = path.read_text(errors="replace").splitlines()
            found += [json.loads(text) for text in lines if text.startswith('{"')]
    return found


@pytest.mark.long
def test_one_request_is_followed_through_all_processes() -> None:
    with installation.running(BULK_LOG="json", BULK_LOG_LEVEL="debug") as place:
        content = HEADER + "".join(line(number, None if number % 2 else "nobody") for number in range(20))
        sent = httpx.post(
            f"http://127.0.0.1:{place.api_port}/v1/imports",
            params={"resource": "users"},
            content=content,
            headers={
                "Content-Type": "text/csv",
                "X-Request-ID": "request-1",
                "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
            },
            timeout=60,
        )
        job_key = sent.json()["job_id"]
        ended = "SELECT finished_at IS NOT NULL FROM job WHERE job_key = %s"
        until(lambda: place.rows(ended, job_key) == [(True,)], "the import is over", SLOW)
        events = {"job submitted", "job started", "flush", "batch completed", "import completed", "job ended"}
        wanted = events | {"high error rate detected"}

        def mine() -> dict[str, dict[str, Any]]:
            return {each["event"]: each for each in told(place.folder) if each.get("job_id") == job_key}

        until(lambda: wanted <= mine().keys(), f"all of {sorted(wanted)} is told", SLOW)
        for name, each in mine().items():
            assert (each.get("request_id"), each.get("trace_id")) == ("request-1", TRACE), (name, each)
        completed = mine()["import completed"]
        assert completed["resource_type"] == "users"
        assert (completed["total_records"], completed["failed_records"], completed["error_rate"]) == (20, 10, 0.5)
        assert completed["duration_ms"] > 0
        assert mine()["flush"]["run_id"]
        ((run,),) = place.rows("SELECT dagster_run_id FROM job WHERE job_key = %s", job_key)
        messages = str(place.ask(LOGS, run=run))
        assert "import completed" in messages
        assert "high error rate detected" in messages
        assert "batch completed" not in messages
