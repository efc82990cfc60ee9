"""Imports by our client, and the work that Dagster would do on them."""

from typing import Any

from bulk_pipelines.client import Client, Import
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import done, users

SOME = users(1, 2, 3)


def run(api: Api, client: Client, source: Any, **options: Any) -> Import:
    """Run an import; this process does the work when the client looks for the first time."""

    def work(seen: Import) -> None:
        if not seen.over:
            done(api.engine, seen.job_id)

    return client.imports.run(source, on_look=work, seconds=120, **options)
