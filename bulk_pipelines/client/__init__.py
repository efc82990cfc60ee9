"""A client of the HTTP API, for Python programs. It needs neither a database nor Dagster.

    from bulk_pipelines.client import Client

    with Client("http://127.0.0.1:8080", key="bulk_…") as bulk:
        done = bulk.imports.run("users.csv", resource="users", mode="upsert")

`client` has the `imports`, `exports`, `distributions` and `jobs` that are asked for over one connection. `connection`
asks and tries again, `contents` makes bytes of what is sent, `uploading` sends them, and `following` waits for the end
of a job. `answers` are the API's answers as Python values, and `problems` its errors, which are those of the whole
program.
"""

from bulk_pipelines.client.answers import Distribution, Export, Import, Item, Job, Preview, RecordError, Undone
from bulk_pipelines.client.client import Client

__all__ = ["Client", "Distribution", "Export", "Import", "Item", "Job", "Preview", "RecordError", "Undone"]
