"""The settings of an installation as a whole: its database, its folder, its runs."""

from dataclasses import dataclass
from pathlib import Path

from bulk_pipelines.settings import places
from bulk_pipelines.settings.variables import setting

DEFAULT_SCHEMA = "bulk"


@dataclass(frozen=True)
class InstallationSettings:
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
    ui_url: str = setting(
        "BULK_UI_URL", "", "The address at which people reach Dagster's UI, for links to it. Empty: on this machine."
    )
    pool_size: int = setting(
        "BULK_POOL_SIZE", 10, "How many database connections one process may hold at most.", at_least=1, at_most=200
    )
    connect_timeout: int = setting(
        "BULK_CONNECT_TIMEOUT", 10, "Seconds to wait for the database to answer a new connection.", at_least=1
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
