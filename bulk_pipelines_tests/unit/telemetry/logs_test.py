"""Log lines: JSON for programs and a form for people, with what the work belongs to, from whatever thread."""

import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines.telemetry import context, events, logs

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_a_line_of_json_with_what_it_belongs_to(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(Settings(log="json"))
    with context.about(job_id="J1", kind="import_users", request_id="r1", trace_parent=TRACE):
        events.info("import completed", total_records=3, error_rate=0.5, nothing=None)
        events.debug("not heard")
    (line,) = lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "import completed",
        "level": "info",
        "logger": "bulk_pipelines.events",
        "total_records": 3,
        "error_rate": 0.5,
        "job_id": "J1",
        "kind": "import_users",
        "request_id": "r1",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    }


def test_lines_of_other_modules_bear_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(Settings(log="json"))
    with context.about(job_id="J1"):
        logging.getLogger("bulk_pipelines.engine.somewhere").warning("lease %d is\nlost", 7)
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("bulk_pipelines.x").exception("it failed")
    first, second = lines(capsys)
    assert (first["event"], first["job_id"], first["level"]) == ("lease 7 is\nlost", "J1", "warning")
    assert second["exception"][0]["exc_value"] == "broken"


def test_people_get_one_line_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(Settings())
    with context.about(job_id="J1"):
        events.warning("high error rate detected", error_rate=0.5)
    (line,) = capsys.readouterr().err.splitlines()
    assert "high error rate detected" in line
    assert "error_rate=0.5" in line
    assert "job_id=J1" in line
    assert "\x1b" not in line


def test_a_message_and_hostile_values_stay_on_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(Settings(log="json"))
    events.info("job ended", error="two\nlines \x1b[31m", value=object(), event_of="x", job_id='"}')
    (line,) = lines(capsys)
    assert line["error"] == "two\nlines \x1b[31m"


def test_the_level_is_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(Settings(log="json", log_level="debug"))
    events.debug("flush", batch_size=1)
    logs.set_up(Settings(log="json"), "warning")
    events.info("not heard")
    assert [line["event"] for line in lines(capsys)] == ["flush"]
    for wrong in (Settings(log="xml"), Settings(log_level="loud")):
        with pytest.raises(InvalidInput, match="BULK_LOG"):
            logs.set_up(wrong)


def test_threads_know_what_they_work_for() -> None:
    with context.about(job_id="J2"):
        carried = context.carried(lambda: context.present().job_id)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(carried).result() == "J2"


def test_a_call_of_others_is_in_the_same_trace() -> None:
    assert context.outgoing() is None
    with context.about(trace_parent=TRACE):
        found = {context.outgoing() for _ in range(3)}
    assert len(found) == 3
    assert {str(each).split("-")[1] for each in found} == {TRACE.split("-")[1]}


def test_the_text_of_an_event_has_its_fields_for_whoever_knows_no_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bulk_pipelines.events"):
        events.info("export completed", total_records=3, format="csv")
    assert caplog.messages == ["export completed total_records=3 format=csv"]


def test_the_command_line_starts_without_what_only_lines_need() -> None:
    code = "import sys; from bulk_pipelines.cli import main; main(['--help'], standalone_mode=False);" + (
        "sys.exit(bool({'structlog', 'opentelemetry.sdk', 'prometheus_client'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
