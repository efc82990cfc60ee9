"""Clearing away what was sent and nobody goes on with."""

from contextlib import suppress
from datetime import UTC, datetime

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import BulkError
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.sent import uploads
from bulk_pipelines.imports.sent.uploads import Upload
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing

AT_A_TIME = 100


def discard(pool: Engine, chosen: Settings, upload: Upload) -> bool:
    """Clear an upload away at once, unless a job has it by now: then nothing is removed, and the answer is False. What
    cannot be removed now is removed by a later pass."""
    with transaction(pool) as connection:
        if not uploads.give_up(connection, upload.upload_id):
            return False
    with suppress(BulkError), locations.folder(landing.place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        clear(pool, storage, upload.upload_id, upload.job_key)
    return True


def is_anything_due(pool: Engine) -> bool:
    """Whether `clear_all` would find an upload to clear away."""
    with transaction(pool) as connection:
        row = connection.execute(queries.text("uploads", "any_expired")).fetchone()
    return bool(row and row[0])


def clear_all(pool: Engine) -> int:
    """Clear away the uploads that nobody goes on with, and return how many they were."""
    chosen = settings.current()
    with transaction(pool) as connection:
        connection.execute(queries.text("uploads", "forget"), {"days": 2})
    count = 0
    while found := expired(pool):
        with locations.folder(landing.place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
            for upload_id, job_key in found:
                clear(pool, storage, upload_id, job_key)
                count += 1
    return count


def expired(pool: Engine) -> list[tuple[str, str]]:
    with transaction(pool) as connection:
        values = {"seconds": 0, "most": AT_A_TIME}
        return connection.execute(queries.text("uploads", "expired"), values).fetchall()


def clear(pool: Engine, storage: Storage, upload_id: str, job_key: str) -> None:
    """Remove the files of an upload, whole or not, and then its row."""
    with suppress(Missing):
        storage.sweep(datetime.now(UTC), of=f"{job_key}/000001-sent")
    with suppress(Missing):
        landing.remove(storage, job_key)
    with transaction(pool) as connection:
        connection.execute(queries.text("uploads", "remove"), {"upload_id": upload_id})
