"""The settings of retention: for how long what is over is kept."""

from dataclasses import dataclass

from bulk_pipelines.settings.variables import setting


@dataclass(frozen=True)
class KeepingSettings:
    keep_audit_days: int = setting(
        "BULK_KEEP_AUDIT_DAYS", 400, "Days for which the audit remembers who did what.", at_least=1
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
