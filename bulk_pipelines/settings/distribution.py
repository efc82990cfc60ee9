"""The settings of what is written for others: exports and distributed files."""

from dataclasses import dataclass

from bulk_pipelines.settings.variables import setting


@dataclass(frozen=True)
class DistributionSettings:
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
