"""The least that a FastAPI endpoint needs to show a job: one SELECT through the program's own pool. What our API adds
is measured against it (`api-overhead`). `python -m benchmarks.bare URL PORT` serves it."""

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from psycopg.rows import dict_row

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction

SELECT = """
    SELECT job_key, status::text AS status, total_items, pending_items, running_items, succeeded_items, dlq_items,
        last_error, created_at, started_at, finished_at
    FROM job WHERE job_key = %s
"""


def main(url: str, port: int) -> None:
    app = FastAPI()
    engine = pool.connect(url)

    @app.get("/jobs/{job_id}")
    def show(job_id: str) -> dict[str, Any]:
        with transaction(engine) as connection, connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(SELECT, [job_id]).fetchone()
        assert found is not None
        return found

    uvicorn.run(app, port=port, http="httptools", ws="none", lifespan="off", access_log=False, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
