"""The settings of the doors over HTTP: the API, the console, and what their callers may do."""

from dataclasses import dataclass

from bulk_pipelines.settings.variables import setting


@dataclass(frozen=True)
class DoorSettings:
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
