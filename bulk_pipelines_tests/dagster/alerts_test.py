"""People are told of failed runs where that is configured: a mail goes through a real server, and Slack's address gets
the reason."""

import email
import json
import ssl
from email.message import Message
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.orchestration.alerts import failure_sensors
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.servers.processes import free_port
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer

MAIL = Settings(mail_to="ops@example.org, you@example.org", mail_from="bulk@example.org", mail_server="mail:587")


@dg.op
def breaks() -> None:
    raise dg.Failure("the cable is cut <b>near Köln</b>…")


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


class Mailbox:
    """What a mail server was given, by whom."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], Message]] = []
        self.users: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
        return "250 taken"

    def login(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.users.append(data.login)
        return AuthResult(success=data.password == b"secret")


@pytest.mark.parametrize("way", ["SSL", "STARTTLS"])
def test_a_mail_says_why(way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority, box = trustme.CA(), Mailbox()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    port = free_port()
    said: dict[str, Any] = {"authenticator": box.login, "auth_required": True, "hostname": "localhost", "port": port}
    if way == "SSL":
        said["auth_required"] = False  # the server does not know that TLS is around it
        server = Controller(box, ssl_context=tls, auth_require_tls=False, **said)
    else:
        server = Controller(box, tls_context=tls, require_starttls=True, **said)
    server.start()
    try:
        if way == "SSL":
            monkeypatch.setattr("bulk_pipelines.orchestration.alerts.SSL_PORT", port)
        chosen = Settings(
            mail_to="ops@example.org, you@example.org",
            mail_from="bulk@example.org",
            mail_server=f"localhost:{port}",
            mail_user="bulk",
            mail_password="secret",
            ui_url="https://dagster.example.org/",
        )
        with dg.DagsterInstance.ephemeral() as instance:
            (sensor,) = failure_sensors(chosen)
            result = broken.execute_in_process(instance=instance, raise_on_error=False)
            context = dg.build_run_status_sensor_context(
                sensor.name, result.get_run_failure_event(), instance, result.dagster_run
            )
            sensor(context.for_run_failure())
    finally:
        server.stop()
    assert box.users == [b"bulk"]
    ((to, mail),) = box.mails
    assert to == ["ops@example.org", "you@example.org"]
    assert (mail["Subject"], mail["From"]) == ("broken failed", "bulk@example.org")
    body = mail.get_payload()
    assert isinstance(body, str)
    assert "broken" in body
    assert "<b>" not in body, "what a run says is text"
    assert f"https://dagster.example.org/runs/{result.run_id}" in body
