"""The settings of what an installation tells: metrics, log lines, traces, mails and messages."""

from dataclasses import dataclass

from bulk_pipelines.settings.variables import setting


@dataclass(frozen=True)
class TellingSettings:
    metrics: bool = setting("BULK_METRICS", True, "Whether the HTTP API answers Prometheus.")
    metrics_path: str = setting("BULK_METRICS_PATH", "/metrics", "The path at which the HTTP API answers Prometheus.")
    metrics_open: bool = setting(
        "BULK_METRICS_OPEN", False, "Whether anybody may read the metrics. No: a key is needed, as for everything else."
    )
    log: str = setting("BULK_LOG", "text", "The form of log lines: `text` for people, or `json` for programs.")
    log_level: str = setting(
        "BULK_LOG_LEVEL",
        "",
        "The least level that is logged: `debug`, `info`, `warning` or `error`. Empty: `info`, and `warning` at the "
        "command line.",
    )
    otlp_endpoint: str = setting(
        "BULK_OTLP_ENDPOINT",
        "",
        "Where traces are sent by OTLP over HTTP, such as `http://127.0.0.1:4318`. It needs the extra "
        "`bulk-pipelines[otel]`. Empty: there are no traces.",
    )
    mail_to: str = setting(
        "BULK_MAIL_TO", "", "Who gets a mail when a run has failed: addresses, separated by commas. Empty: nobody."
    )
    mail_from: str = setting("BULK_MAIL_FROM", "", "The sender of the mails about failed runs.")
    mail_server: str = setting(
        "BULK_MAIL_SERVER", "", "The mail server, `host:port`: TLS at the port 465, else STARTTLS."
    )
    mail_user: str = setting("BULK_MAIL_USER", "", "The user at the mail server. Empty: the sender.")
    mail_password: str = setting("BULK_MAIL_PASSWORD", "", "The password at the mail server.", secret=True)
    slack_webhook: str = setting(
        "BULK_SLACK_WEBHOOK",
        "",
        "The address of an incoming webhook of Slack, which is told when a run has failed. Empty: none.",
        secret=True,
    )
