"""A folder that is looked at, and imports of its files that nothing works."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import put_away, sources
from bulk_pipelines.drops.look import Doors, Looked, look
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.imports import submission
from bulk_pipelines.processing import submission as processing
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.local.storage import LocalStorage

RESOURCES = ("users", "articles", "comments")
REFERENCES = {"comments": ["articles", "users"], "articles": ["users"], "users": []}
KINDS = Kinds([Kind(f"import_{name}", lambda lease, tools: Done()) for name in RESOURCES])


class Inbox:
    """A folder that is looked at, and what was taken from it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        folder.mkdir()
        self.source = sources.standard(folder, RESOURCES)
        self.between: Callable[[float], None] = lambda _: None
        self.references: Mapping[str, Sequence[str]] = REFERENCES

    def set(self, **changes: Any) -> None:
        self.source = DropSource(**{**vars(self.source), "settle_seconds": 0.0, **changes})

    def drop(self, name: str, text: str = "id\n1\n") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def storage(self) -> Storage:
        return LocalStorage(self.folder)

    def look(self, **options: Any) -> Looked:
        return look(
            self.engine,
            self.source,
            options.pop("open_storage", self.storage),
            Doors(options.pop("submit", submission.submit_drop), processing.submit_drop, self.references),
            sleep=self.between,
            **options,
        )

    def clear_up(self) -> int:
        return put_away.clear_up(self.engine, self.source, self.storage)

    def taken(self) -> list[list[str]]:
        """The file names of each job, in the order of the jobs."""
        with transaction(self.engine) as connection:
            rows = connection.execute(
                "SELECT array_agg(source ORDER BY number) FROM import_file GROUP BY job_id ORDER BY job_id"
            ).fetchall()
        return [[Path(source).name for source in sources] for (sources,) in rows]

    def end_jobs(self, event: JobEvent, result: dict[str, Any] | None = None) -> None:
        with transaction(self.engine) as connection:
            for (key,) in connection.execute("SELECT job_key FROM job WHERE finished_at IS NULL").fetchall():
                job_id = jobs.start(connection, key).job_id
                jobs.seal(connection, job_id)
                jobs.move(connection, key, event, error="it was bad", result=result)
                for file in (result or {}).get("files", ()):
                    connection.execute(
                        "UPDATE import_file SET sha256 = %s, duplicate = %s, note = %s"
                        " WHERE job_id = %s AND source = %s",
                        [file["sha256"], file.get("duplicate", False), file.get("note"), job_id, file["source"]],
                    )

    def known(self) -> list[list[str]]:
        """The contents that each submitted file was known to have had before, in the order of the jobs."""
        with transaction(self.engine) as connection:
            rows = connection.execute("SELECT known_sha256 FROM import_file ORDER BY job_id, number").fetchall()
        return [known for (known,) in rows]

    def statuses(self) -> dict[str, str]:
        with transaction(self.engine) as connection:
            return dict(connection.execute("SELECT path, status::text FROM file_drop ORDER BY drop_id").fetchall())
