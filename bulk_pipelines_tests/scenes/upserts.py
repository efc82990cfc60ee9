"""Upserts of a few users by their addresses."""

from typing import Any

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.scenes.import_jobs import Imports, Row, file_of

EMAILS = [f"c{number}@x.org" for number in range(8)]
GOOD = [(email, "new", "reader") for email in EMAILS]


def upsert(imports: Imports, *rows: Row, **options: Any) -> Job:
    return imports.planned(file_of(*rows), mode="upsert", match_on="email", **options)
