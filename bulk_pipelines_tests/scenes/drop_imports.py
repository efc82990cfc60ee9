"""A source that is looked at, and its imports, which run in this process."""

from pathlib import Path

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import put_away, sources
from bulk_pipelines.drops.look import Doors, Looked, look
from bulk_pipelines.drops.sources import After, DropSource
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports import progress, submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.processing import submission as processing
from bulk_pipelines_tests.scenes import drops as drop_scene
from bulk_pipelines_tests.scenes.drops import Box


class Drops:
    """A source that is looked at, and its imports, which run in this process."""

    def __init__(self, engine: Engine, box: Box) -> None:
        self.engine = engine
        self.box = box
        rules = sources.standard(Path("/"), drop_scene.RESOURCES).rules
        self.source = DropSource(
            "box", box.url, rules, After.MOVE, failed_folder="failed", settle_seconds=0.0, max_files=10
        )

    def look(self) -> Looked:
        references = {"comments": ["articles", "users"], "articles": ["users"], "users": list[str]()}
        doors = Doors(submission.submit_drop, processing.submit_drop, references)
        return look(self.engine, self.source, self.box.storage, doors)

    def taken(self) -> Job:
        """What the next look takes, as the one job it becomes."""
        (key,) = self.look().jobs
        with transaction(self.engine) as connection:
            return jobs.start(connection, key)

    def work(self, job: Job) -> Job:
        """Plan and work the job as Dagster's steps do; a plan that comes to nothing fails the job."""
        try:
            planning.plan(self.engine, job)
        except InvalidInput as error:
            with transaction(self.engine) as connection:
                return jobs.fail(connection, job.job_key, str(error))
        with Worker(self.engine, KINDS, job) as worker:
            drain(worker)
        with transaction(self.engine) as connection:
            return jobs.find(connection, job.job_key)

    def files(self, job: Job) -> list[ImportFile]:
        with transaction(self.engine) as connection:
            return progress.files(connection, job.job_id)

    def clear_up(self) -> int:
        return put_away.clear_up(self.engine, self.source, self.box.storage)

    def ends(self) -> list[tuple[str, str, str | None]]:
        with transaction(self.engine) as connection:
            return connection.execute("SELECT path, status::text, note FROM file_drop ORDER BY job_id, path").fetchall()

    def users(self) -> list[str]:
        with transaction(self.engine) as connection:
            return [row[0] for row in connection.execute("SELECT email FROM users ORDER BY email").fetchall()]
