"""Every setting of the system, and the only place that reads the environment.

A setting is one line of `Settings`, or of one of its groups: its variable, its default and what it does.
`docs/settings.md` is made from it.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from bulk_pipelines.settings import places
from bulk_pipelines.settings.engine import EngineSettings
from bulk_pipelines.settings.places import CHECKOUT, shipped
from bulk_pipelines.settings.variables import parsed, setting

__all__ = [
    "CHECKOUT",
    "DEFAULT_SCHEMA",
    "Description",
    "Settings",
    "current",
    "describe",
    "environment",
    "load",
    "shipped",
    "unknown",
]

DEFAULT_SCHEMA = "bulk"


@dataclass(frozen=True)
class Settings:
    """The settings of one process, one field for each."""

    database_url: str = setting(
        "BULK_DATABASE_URL",
        "",
        "The PostgreSQL (15 or newer) to use, `postgresql://user:password@host:port/database`. "
        "Empty: an embedded server, started when it is needed.",
        secret=True,
    )
    schema: str = setting(
        "BULK_SCHEMA",
        DEFAULT_SCHEMA,
        "The schema of that database in which everything stands that this program makes for itself "
        "(docs/privileges.md). Tables of people stay where they are.",
    )
    home: Path = setting(
        "BULK_HOME",
        Path(places.HOME),
        "The folder of everything this installation keeps on disk: the embedded server's data, Dagster's logs, local "
        "storage. By default it lies in the nearest folder, from the current one upwards, that has a `.bulk` or a "
        "`drops.toml`, else in the current one.",
    )
    ui_port: int = setting("BULK_UI_PORT", 3000, "The port of Dagster's UI, on loopback.", at_least=1, at_most=65535)
    server: str = setting(
        "BULK_SERVER",
        "",
        "The address of an HTTP API, `https://bulk.example.org`, that `bulk` speaks to. Empty: it works on the "
        "database.",
    )
    api_key: str = setting(
        "BULK_API_KEY", "", "The key to that HTTP API: `bulk keys create` makes one there.", secret=True
    )
    api_host: str = setting(
        "BULK_API_HOST",
        "127.0.0.1",
        "The address that the HTTP API listens on. Without API keys and trusted proxies it is loopback in any case.",
    )
    api_port: int = setting("BULK_API_PORT", 8080, "The port of the HTTP API.", at_least=1, at_most=65535)
    api_folders: str = setting(
        "BULK_API_FOLDERS",
        "",
        "Folders of this machine, separated by `:`, below which administrators may name files over HTTP. Empty: none.",
    )
    api_sources: str = setting(
        "BULK_API_SOURCES",
        "",
        "Folders at S3, FTP and SFTP servers, separated by commas (`s3://incoming/daily`), below which everybody may "
        "name files over HTTP. The server reads them with its own rights. Administrators may name any.",
    )
    api_proxies: str = setting(
        "BULK_API_PROXIES",
        "",
        "Addresses or networks, separated by commas, of the proxies that are believed when they name a user or a "
        "client's address. Empty: none.",
    )
    api_redirects: bool = setting(
        "BULK_API_REDIRECTS",
        True,
        "Whether the download of an export on S3 is a redirect to there. Turn it off where clients cannot reach the S3 "
        "server: the API then passes the file on.",
    )
    api_user_header: str = setting(
        "BULK_API_USER_HEADER", "X-Forwarded-User", "The header in which a trusted proxy names the user."
    )
    api_admins: str = setting(
        "BULK_API_ADMINS", "", "The users, separated by commas, who are administrators when a trusted proxy names them."
    )
    session_hours: int = setting(
        "BULK_SESSION_HOURS", 12, "Hours after which a browser must log in to the console again.", at_least=1
    )
    console_url: str = setting(
        "BULK_CONSOLE_URL",
        "",
        "The address at which people reach the console, for the links in Dagster's runs: `https://bulk.example.org`. "
        "Empty: this machine's, at `BULK_API_PORT`.",
    )
    api_kick_offs: int = setting(
        "BULK_API_KICKOFFS",
        2,
        "How many slices of work one process of the HTTP API does at once, when somebody kicks jobs off.",
        at_least=1,
        at_most=32,
    )
    pending_dashboard: bool = setting(
        "BULK_PENDING_DASHBOARD",
        True,
        "Whether there is a list of the items of all jobs. The list of one job's items is always there.",
    )
    metrics: bool = setting("BULK_METRICS", True, "Whether the HTTP API answers Prometheus.")
    metrics_path: str = setting("BULK_METRICS_PATH", "/metrics", "Where it does.")
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
    mail_from: str = setting("BULK_MAIL_FROM", "", "The sender of these mails.")
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
    ui_url: str = setting(
        "BULK_UI_URL", "", "Where people reach Dagster's UI, for links in such messages. Empty: on this machine."
    )
    owner_jobs: int = setting(
        "BULK_OWNER_JOBS", 1_000, "How many unfinished jobs one owner may have when submitting over HTTP.", at_least=1
    )
    owner_items: int = setting(
        "BULK_OWNER_ITEMS",
        10_000_000,
        "How many open items one owner may have when submitting over HTTP.",
        at_least=1,
    )
    owner_bytes: int = setting(
        "BULK_OWNER_BYTES", 1024**4, "How many bytes one owner may send over HTTP within a day.", at_least=1
    )
    keep_audit_days: int = setting(
        "BULK_KEEP_AUDIT_DAYS", 400, "Days for which the audit remembers who did what.", at_least=1
    )
    pool_size: int = setting(
        "BULK_POOL_SIZE", 10, "How many database connections one process may hold at most.", at_least=1, at_most=200
    )
    connect_timeout: int = setting(
        "BULK_CONNECT_TIMEOUT", 10, "Seconds to wait for the database to answer a new connection.", at_least=1
    )
    landing_url: str = setting(
        "BULK_LANDING_URL",
        "",
        "Where sources are landed: a folder or `s3://bucket/folder`, one that every machine with workers can reach. "
        "Empty: the folder `landed` in `BULK_HOME`.",
    )
    landing_max_bytes: int = setting(
        "BULK_LANDING_MAX_BYTES", 64 * 1024**3, "The largest source, also after decompression, in bytes.", at_least=1
    )
    landing_max_ratio: float = setting(
        "BULK_LANDING_MAX_RATIO", 200.0, "How many times its size a compressed source may unpack to.", at_least=1
    )
    s3_endpoint: str = setting(
        "BULK_S3_ENDPOINT", "", "The S3 server, `https://host:port`. Empty: Amazon's, of the region."
    )
    s3_region: str = setting("BULK_S3_REGION", "us-east-1", "The region of the S3 buckets.")
    s3_access_key_id: str = setting(
        "BULK_S3_ACCESS_KEY_ID",
        "",
        "The S3 access key. Empty: what boto3 finds (environment, profile, machine role), else unsigned requests.",
    )
    s3_secret_access_key: str = setting(
        "BULK_S3_SECRET_ACCESS_KEY", "", "The secret of the S3 access key.", secret=True
    )
    s3_session_token: str = setting(
        "BULK_S3_SESSION_TOKEN", "", "The session token of temporary S3 credentials.", secret=True
    )
    login_user: str = setting(
        "BULK_LOGIN_USER", "", "The user for FTP, FTPS and SFTP addresses that name none. Empty: anonymous."
    )
    login_password: str = setting(
        "BULK_LOGIN_PASSWORD", "", "The password for FTP, FTPS and SFTP addresses that name none.", secret=True
    )
    sftp_key_file: str = setting("BULK_SFTP_KEY_FILE", "", "The private key for SFTP. Empty: passwords only.")
    sftp_known_hosts: str = setting(
        "BULK_SFTP_KNOWN_HOSTS", "", "The keys of trusted SFTP servers. Empty: the user's `~/.ssh/known_hosts`."
    )
    ca_file: str = setting(
        "BULK_CA_FILE", "", "A PEM file of authorities to trust besides the system's, for S3, FTPS and HTTPS."
    )
    contact: str = setting(
        "BULK_CONTACT",
        "",
        "A mail address or page of whoever runs this installation. It stands in the User-Agent for providers that "
        "declare no contact of their own; Wikimedia's are not asked without one.",
    )
    allow_private_http: bool = setting(
        "BULK_ALLOW_PRIVATE_HTTP",
        False,
        "Whether HTTP sources may lie in private networks or on this machine. No: a job cannot be used to look inside.",
    )
    http_seconds: float = setting(
        "BULK_HTTP_SECONDS", 3600.0, "The longest one HTTP download may take in all, in seconds.", at_least=1
    )
    jobs_of_kind: int = setting(
        "BULK_JOBS_OF_KIND", 10, "How many jobs of one kind may run at once; the others wait their turn.", at_least=1
    )
    jobs_of_owner: int = setting(
        "BULK_JOBS_OF_OWNER", 10, "How many jobs of one owner may run at once; the others wait their turn.", at_least=1
    )
    lanes: int = setting(
        "BULK_LANES", 2, "How many steps of one run work a job's items side by side.", at_least=1, at_most=64
    )
    run_seconds: int = setting(
        "BULK_RUN_SECONDS",
        14_400,
        "Seconds for which one run works a job. Then it ends, and another one goes on, when its turn comes.",
        at_least=10,
    )
    silent_seconds: float = setting(
        "BULK_SILENT_SECONDS",
        120.0,
        "Seconds without a sign of life after which the sweeper looks for the run of a job that should be at work.",
        at_least=10,
    )
    sweep_minutes: int = setting(
        "BULK_SWEEP_MINUTES", 15, "Minutes between two passes of the sweeper.", at_least=1, at_most=59
    )
    finalize_minutes: int = setting(
        "BULK_FINALIZE_MINUTES", 5, "Minutes between two passes of the finalizer.", at_least=1, at_most=59
    )
    prune_hour: int = setting(
        "BULK_PRUNE_HOUR", 3, "The hour of the day, UTC, at which retention begins.", at_least=0, at_most=23
    )
    keep_items_days: int = setting(
        "BULK_KEEP_ITEMS_DAYS",
        30,
        "Days for which the items of a finished job are kept, its dead letters too.",
        at_least=1,
    )
    keep_rejects_days: int = setting(
        "BULK_KEEP_REJECTS_DAYS", 30, "Days for which the rejected records of a finished import are kept.", at_least=1
    )
    keep_landed_days: int = setting(
        "BULK_KEEP_LANDED_DAYS",
        7,
        "Days for which the landed files of a finished import are kept; with dead letters, as long as its items.",
        at_least=1,
    )
    keep_answers_days: int = setting(
        "BULK_KEEP_ANSWERS_DAYS",
        365,
        "Days for which answers of providers are kept at most; each provider says for how long they serve.",
        at_least=1,
    )
    keep_drops_days: int = setting(
        "BULK_KEEP_DROPS_DAYS",
        90,
        "Days for which the ledger of drops remembers a file that is gone from its source. One that is there is never "
        "forgotten.",
        at_least=2,
    )
    keep_jobs_days: int = setting(
        "BULK_KEEP_JOBS_DAYS", 365, "Days for which a finished job itself, with its counters, is kept.", at_least=1
    )
    keep_runs_days: int = setting(
        "BULK_KEEP_RUNS_DAYS", 30, "Days for which Dagster's finished runs and their events are kept.", at_least=1
    )
    keep_ticks_days: int = setting(
        "BULK_KEEP_TICKS_DAYS",
        30,
        "Days for which ticks of Dagster's sensors and schedules are kept at most; most go earlier, by dagster.yaml.",
        at_least=1,
    )
    keep_partitions: int = setting(
        "BULK_KEEP_PARTITIONS", 5_000, "How many job keys each asset keeps as partitions, the newest.", at_least=100
    )
    exports_url: str = setting(
        "BULK_EXPORTS_URL",
        "",
        "Where exports go that name no target: a folder or `s3://bucket/folder`, one that every machine with workers "
        "can reach. Empty: the folder `exports` in `BULK_HOME`.",
    )
    distribution_url: str = setting(
        "BULK_DISTRIBUTION_URL",
        "",
        "Where distributed files go: a folder or `s3://bucket/prefix`. Empty: the folder `distribution` in BULK_HOME.",
    )
    distribution_query: str = setting(
        "BULK_DISTRIBUTION_QUERY",
        "",
        "A file with the SELECT for the data of one input, with `:index_key`, `:effective_date` and `:asof_indicator`. "
        "Empty: the rows of the table `index_data`.",
    )
    distribution_claim: int = setting(
        "BULK_DISTRIBUTION_CLAIM",
        1_000,
        "How many inputs a worker claims at once, at most.",
        at_least=1,
        at_most=10_000,
    )
    distribution_concurrency: int = setting(
        "BULK_DISTRIBUTION_CONCURRENCY", 16, "How many files one worker writes at once.", at_least=1, at_most=256
    )
    distribution_lease_seconds: float = setting(
        "BULK_DISTRIBUTION_LEASE_SECONDS",
        60.0,
        "Seconds after which the inputs of a worker that was lost go to another one; renewed while it lives.",
        at_least=1,
    )
    distribution_attempts: int = setting(
        "BULK_DISTRIBUTION_ATTEMPTS", 10, "How often an input is tried before it goes to the DLQ.", at_least=1
    )
    distribution_base_delay: float = setting(
        "BULK_DISTRIBUTION_BASE_DELAY",
        1.0,
        "Seconds before an input's second try, at most; doubled for each further one, up to 300.",
        at_least=0.001,
    )
    reuse_files: bool = setting(
        "BULK_REUSE_FILES", True, "Whether an input whose file was distributed before is answered with that file."
    )
    reuse_days: int = setting(
        "BULK_REUSE_DAYS", 7, "Inputs with an effective date younger than this many days are never reused.", at_least=0
    )
    registry_checks: int = setting(
        "BULK_REGISTRY_CHECKS",
        50_000,
        "How many registered files the daily retention looks for in the storage, going on where the last pass ended; "
        "those that are gone leave the registry. 0: none.",
        at_least=0,
    )
    recipes_folder: str = setting(
        "BULK_RECIPES",
        "",
        "The folder of the TOML files that declare recipes and providers (docs/processing.md). Empty: the folder "
        "`recipes` beside `BULK_HOME`.",
    )
    resources_folder: str = setting(
        "BULK_RESOURCES",
        "",
        "The folder of the TOML files that declare adopted tables (docs/resources.md). Empty: the folder `resources` "
        "beside `BULK_HOME`.",
    )
    drops_file: Path = setting(
        "BULK_DROPS_FILE",
        Path(places.DROPS),
        "The TOML file that names the sources of dropped files (docs/drops.md), by default in the same folder as "
        "`.bulk`. Where nobody names one and there is none, the folder `inbox` in BULK_HOME is the only source.",
    )
    engine: EngineSettings = field(default_factory=EngineSettings)


@dataclass(frozen=True)
class Description:
    """What the documentation says about one setting."""

    name: str
    variable: str
    kind: str
    default: str
    doc: str


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings from these variables. A variable that is missing or empty means its default."""
    return Settings(**given(Settings, environ), engine=EngineSettings(**given(EngineSettings, environ)))


def given(group: type, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that these variables give to a group of settings."""
    values: dict[str, Any] = {}
    for each in declared(group):
        text = environ.get(each.metadata["variable"], "").strip()
        if text:
            values[each.name] = parsed(text, type(each.default), each.metadata)
        elif isinstance(each.default, Path):
            values[each.name] = places.project() / each.default
    return values


def declared(*groups: type) -> Iterator[Field[Any]]:
    """Yield the fields that are settings, of these groups or of all."""
    return (each for group in groups or (Settings, EngineSettings) for each in fields(group) if each.metadata)


def current() -> Settings:
    """Return the settings of this process."""
    return load(os.environ)


def secret(variable: str) -> str:
    """Return the value of a variable that a declaration names, because a secret does not stand in a file; empty text if
    it is not set. Settings cannot be read in this way: they hold the installation's own secrets."""
    return "" if variable.startswith("BULK_") else os.environ.get(variable, "")


def environment(**added: str) -> dict[str, str]:
    """Return the environment for a child process: that of this process, and what is added."""
    return {**os.environ, **added}


def unknown() -> list[str]:
    """Return the variables of this process that look like settings and are none, which most often means a
    misspelling."""
    known = {each.metadata["variable"] for each in declared()}
    return sorted(name for name in os.environ if name.startswith("BULK_") and name not in known)


def describe(*groups: type) -> list[Description]:
    """Describe the settings of these groups or of all, in the order of their classes."""
    return [
        Description(
            each.name,
            each.metadata["variable"],
            type(each.default).__name__ if not isinstance(each.default, Path) else "path",
            str(each.default),
            each.metadata["doc"],
        )
        for each in declared(*groups)
    ]
