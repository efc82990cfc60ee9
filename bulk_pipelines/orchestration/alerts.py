"""Telling people of failed runs by mail or in Slack, where that is configured. These are Dagster's own sensors; whoever
wants to be told as a program subscribes to notices."""

import html

import dagster as dg
import httpx

from bulk_pipelines import settings
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.orchestration.runs import PARTITION
from bulk_pipelines.settings import Settings, addresses

SSL_PORT = 465
LONGEST_REASON = 1_000
SECONDS = 10.0


def failure_sensors(chosen: Settings) -> list[dg.SensorDefinition]:
    """Return the sensors that the settings ask for."""
    return [*([by_mail(chosen)] if chosen.mail_to else []), *([in_slack()] if chosen.slack_webhook else [])]


def by_mail(chosen: Settings) -> dg.SensorDefinition:
    missing = [name for name, value in (("FROM", chosen.mail_from), ("SERVER", chosen.mail_server)) if not value]
    if missing:
        raise InvalidInput(f"BULK_MAIL_{missing[0]}", "is needed, because BULK_MAIL_TO is set")
    host, _, port = chosen.mail_server.partition(":")
    number = int(port) if port.isdigit() else SSL_PORT
    return dg.make_email_on_run_failure_sensor(
        email_from=chosen.mail_from,
        email_password=chosen.mail_password,
        email_to=[each.strip() for each in chosen.mail_to.split(",") if each.strip()],
        smtp_host=host,
        smtp_port=number,
        smtp_type="SSL" if number == SSL_PORT else "STARTTLS",
        smtp_user=chosen.mail_user or None,
        email_body_fn=mail_of,
        email_subject_fn=subject_of,
        name="mail_on_failure",
        webserver_base_url=ui(chosen),
        default_status=dg.DefaultSensorStatus.RUNNING,
    )


def subject_of(context: dg.RunFailureSensorContext) -> str:
    return f"{context.dagster_run.job_name} failed"


def mail_of(context: dg.RunFailureSensorContext) -> str:
    """Return the text of a mail. Dagster sends it as HTML, and nothing but ASCII."""
    run = context.dagster_run
    about = run.tags.get(PARTITION, run.run_id[:8])
    why = context.failure_event.message or "no reason was given"
    text = html.escape(f"{run.job_name} {about} failed: {why[:LONGEST_REASON]}")
    return text.encode("ascii", "xmlcharrefreplace").decode()


def in_slack() -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name="slack_on_failure",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells a channel of Slack why a run has failed.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> None:
        chosen = settings.current()
        run = context.dagster_run
        about = run.tags.get(PARTITION, run.run_id[:8])
        why = context.failure_event.message or "no reason was given"
        text = f"*{run.job_name}* {about} failed: {why[:LONGEST_REASON]}\n{ui(chosen)}/runs/{run.run_id}"
        httpx.post(chosen.slack_webhook, json={"text": text}, timeout=SECONDS).raise_for_status()

    return sensor


def ui(chosen: Settings) -> str:
    return addresses.dagster(chosen)
