"""A long history in Dagster's storage: copies of runs that an installation really made, with all their events and tags,
each under a run id and a partition key of its own; and two days of sensors' ticks."""

from dataclasses import dataclass

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import Connection

PARTITIONS = 5_000
"""How many keys each asset has; retention keeps no more."""
RUNS = 20_000
DAYS = 30
"""Days over which the runs are spread; retention keeps no older ones."""
TICKS = 2 * 24 * 3_600 // 5
"""How many ticks of each sensor there are: one in five seconds, for the two days that skipped ticks are kept."""


@dataclass(frozen=True)
class Pattern:
    """A run that is copied."""

    run_id: str
    job_name: str
    key: str
    partitions: str
    """The name under which Dagster keeps the keys of the asset."""


def fill(url: str) -> None:
    """Fill Dagster's storage with copies of the first run of each asset."""
    with pool.single(url) as connection:
        patterns = [Pattern(*row) for row in connection.execute(PATTERNS).fetchall()]
        for each in patterns:
            copy(connection, each, RUNS // len(patterns))
        connection.execute("UPDATE dagster.asset_keys SET cached_status_data = NULL")
        connection.execute(COPY_TICKS, {"ticks": TICKS})
    with pool.single(url) as connection:
        connection.execute("VACUUM ANALYZE")


def copy(connection: Connection, pattern: Pattern, runs: int) -> None:
    values = vars(pattern) | {"runs": runs, "partitions_of_asset": PARTITIONS, "seconds": DAYS * 86_400}
    connection.execute("DROP TABLE IF EXISTS fresh")
    connection.execute(FRESH, values)
    connection.execute(ADD_KEYS, values)
    for (table,) in connection.execute(TABLES_OF_RUNS).fetchall():
        columns = connection.execute(COLUMNS, {"table": table}).fetchall()
        names = ", ".join(f'"{name}"' for name, _ in columns)
        made = ", ".join(copied(name, kind) for name, kind in columns)
        connection.execute(
            f"INSERT INTO dagster.{table} ({names}) SELECT {made} FROM fresh CROSS JOIN dagster.{table} AS old"
            " WHERE old.run_id = %(run_id)s AND fresh.run_id IS NOT NULL ORDER BY fresh.age DESC, old.id",
            values,
        )
    connection.execute(COPY_EVENT_TAGS, values)


def copied(name: str, kind: str) -> str:
    """Return the expression that makes a copy's column."""
    column = f'old."{name}"'
    if kind in ("text", "character varying"):
        return f"replace(replace({column}, %(run_id)s, fresh.run_id), %(key)s, fresh.key)"
    if kind.startswith("timestamp"):
        return f"{column} - make_interval(secs => fresh.age)"
    return f"{column} - fresh.age" if name in ("start_time", "end_time") else column


PATTERNS = """
SELECT DISTINCT ON (pipeline_name) run_id, pipeline_name, value, pipeline_name || '_jobs'
FROM dagster.runs JOIN dagster.run_tags USING (run_id)
WHERE key = 'dagster/partition' AND status = 'SUCCESS'
ORDER BY pipeline_name, runs.id
"""
FRESH = """
CREATE TEMPORARY TABLE fresh AS
SELECT 'J' || to_char(now() - make_interval(secs => age), 'YYYYMMDD') || '_' || lpad((900000 - number)::text, 6, '0')
    AS key, age, CASE WHEN number <= %(runs)s THEN gen_random_uuid()::text END AS run_id
FROM generate_series(1, %(partitions_of_asset)s) AS number
CROSS JOIN LATERAL (SELECT number::float8 * %(seconds)s / %(partitions_of_asset)s AS age) AS aged
"""
ADD_KEYS = """
INSERT INTO dagster.dynamic_partitions (partitions_def_name, partition, create_timestamp)
SELECT %(partitions)s, key, now() - make_interval(secs => age) FROM fresh ORDER BY age DESC
"""
TABLES_OF_RUNS = """
SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'dagster' AND column_name = 'run_id' AND table_type = 'BASE TABLE'
ORDER BY table_name = 'runs' DESC, table_name
"""
COLUMNS = """
SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = 'dagster' AND table_name = %(table)s AND column_name <> 'id'
ORDER BY ordinal_position
"""
COPY_EVENT_TAGS = """
INSERT INTO dagster.asset_event_tags (event_id, asset_key, key, value, event_timestamp)
SELECT event.id, old.asset_key, old.key, replace(old.value, %(key)s, fresh.key), event.timestamp
FROM dagster.asset_event_tags AS old
JOIN dagster.event_logs AS pattern ON pattern.id = old.event_id AND pattern.run_id = %(run_id)s
JOIN fresh ON fresh.run_id IS NOT NULL
JOIN dagster.event_logs AS event ON event.run_id = fresh.run_id AND event.asset_key = pattern.asset_key
    AND event.dagster_event_type = pattern.dagster_event_type
"""
COPY_TICKS = """
WITH pattern AS (
    SELECT DISTINCT ON (selector_id) * FROM dagster.job_ticks
    WHERE status = 'SKIPPED' AND type = 'SENSOR' ORDER BY selector_id, id
)
INSERT INTO dagster.job_ticks
    (job_origin_id, selector_id, status, type, timestamp, tick_body, create_timestamp, update_timestamp)
SELECT job_origin_id, selector_id, status, type, timestamp - aged.age, tick_body, create_timestamp - aged.age,
    update_timestamp - aged.age
FROM pattern CROSS JOIN generate_series(%(ticks)s::int, 1, -1) AS number
CROSS JOIN LATERAL (SELECT number * interval '5 seconds' AS age) AS aged
"""
