"""What became of the notices of a job."""

from psycopg.rows import dict_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection


def counts(connection: Connection, job_id: int) -> dict[str, int]:
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(queries.text("notices", "count_outcomes"), {"job_id": job_id}).fetchone()
    assert found is not None, "counts always make a row"
    return {name: int(count) for name, count in found.items()}
