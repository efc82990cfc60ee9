"""Imports into the tables of a shop, which somebody else has made."""

from typing import Any

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop


def planned(shop: Shop, imports: Imports, table: str, *texts: str, **options: Any) -> Job:
    declared = shop.declared(table)
    return imports.planned(*texts, resource=declared.name, declaration=declared, **options)


def loaded(shop: Shop, imports: Imports, table: str, *texts: str, **options: Any) -> Job:
    """Import files with these contents. Nothing of the import's own is left behind."""
    job = imports.worked(planned(shop, imports, table, *texts, **options))
    assert not shop.left_over()
    return job
