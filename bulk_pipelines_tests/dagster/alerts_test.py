"""People are told of failed runs where that is configured: the sensors are there, and Slack's gets the reason."""

import json

import dagster as dg
import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.orchestration.alerts import failure_sensors
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer

MAIL = Settings(mail_to="ops@example.org, you@example.org", mail_from="bulk@example.org", mail_server="mail:587")


@dg.op
def breaks() -> None:
    raise dg.Failure("the cable is cut")


@dg.job
def broken() -> None:
    breaks()


def test_nothing_is_configured_and_nobody_is_told() -> None:
    assert failure_sensors(Settings()) == []


def test_mail_needs_a_sender_and_a_server() -> None:
    assert [each.name for each in failure_sensors(MAIL)] == ["mail_on_failure"]
    with pytest.raises(InvalidInput, match="BULK_MAIL_FROM"):
        failure_sensors(Settings(mail_to="ops@example.org"))


def test_slack_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(call: Call) -> dict[str, str]:
        return {}

    with ProviderServer(taken) as server, dg.DagsterInstance.ephemeral() as instance:
        monkeypatch.setenv("BULK_SLACK_WEBHOOK", server.url + "services/T0/B0/x")
        monkeypatch.setenv("BULK_UI_URL", "https://dagster.example.org/")
        (sensor,) = failure_sensors(Settings(slack_webhook="set"))
        result = broken.execute_in_process(instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            sensor.name, result.get_run_failure_event(), instance, result.dagster_run
        )
        sensor(context.for_run_failure())
    (call,) = server.calls
    text = json.loads(call.body)["text"]
    assert text.startswith("*broken*")
    assert text.endswith(f"https://dagster.example.org/runs/{result.run_id}")
