"""A folder that is looked at, and imports of its files that nothing works."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.drops import put_away, sources
from bulk_pipelines.drops.look import File, Looked, look
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.local.storage import LocalStorage

RESOURCES = ("users", "articles", "comments")
REFERENCES = {"comments": ["articles", "users"], "articles": ["users"], "users": []}
KINDS = Kinds([Kind(f"import_{name}", lambda lease, tools: Done()) for name in RESOURCES])


def submit(connection: Connection, source: str, files: Sequence[File], **rule: str | None) -> tuple[int, str]:
    params = {"files": [{"source": url, "known": known} for url, _, _, known in files]}
    request = jobs.Request(f"import_{rule['resource']}", source, params, origin="sensor")
    job = jobs.submit(connection, KINDS, request).job
    return job.job_id, job.job_key


class Inbox:
    """A folder that is looked at, and what was taken from it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        folder.mkdir()
        self.source = sources.standard(folder, RESOURCES)
        self.between: Callable[[float], None] = lambda _: None

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
            options.pop("submit", submit),
            REFERENCES,
            sleep=self.between,
            **options,
        )

    def clear_up(self) -> int:
        return put_away.clear_up(self.engine, self.source, self.storage)

    def taken(self) -> list[list[str]]:
        """The file names of each job, in the order of the jobs."""
        with transaction(self.engine) as connection:
            rows = connection.execute("SELECT params->'files' FROM job ORDER BY job_id").fetchall()
        return [[Path(file["source"]).name for file in files] for (files,) in rows]

    def end_jobs(self, event: JobEvent, result: dict[str, Any] | None = None) -> None:
        with transaction(self.engine) as connection:
            for (key,) in connection.execute("SELECT job_key FROM job WHERE finished_at IS NULL").fetchall():
                job_id = jobs.start(connection, key).job_id
                jobs.seal(connection, job_id)
                jobs.move(connection, key, event, error="it was bad", result=result)
                for number, file in enumerate((result or {}).get("files", ()), 1):
                    connection.execute(
                        "INSERT INTO import_file (job_id, number, source, sha256, duplicate, note)"
                        " VALUES (%s, %s, %s, %s, %s, %s)",
                        [
                            job_id,
                            number,
                            file["source"],
                            file["sha256"],
                            file.get("duplicate", False),
                            file.get("note"),
                        ],
                    )

    def statuses(self) -> dict[str, str]:
        with transaction(self.engine) as connection:
            return dict(connection.execute("SELECT path, status::text FROM file_drop ORDER BY drop_id").fetchall())
