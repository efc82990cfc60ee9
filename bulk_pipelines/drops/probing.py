"""Whether the configured sources can be looked at: asked by people before they rely on it. Nothing is taken."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from bulk_pipelines.drops.sources import FIELD, DropSource
from bulk_pipelines.errors import BulkError
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access

AT_ONCE = 16


def problems(sources: Sequence[DropSource], access: Access) -> dict[str, str]:
    """Why sources cannot be looked at just now, by their names. Each takes as long as its storage has patience."""
    if not sources:
        return {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe") as threads:
        found = threads.map(lambda each: problem(each, access), sources)
        return {source.name: why for source, why in zip(sources, found, strict=True) if why is not None}


def problem(source: DropSource, access: Access) -> str | None:
    quick = replace(access, s3=replace(access.s3, retries=0))
    try:
        with locations.folder(source.where, quick, FIELD) as storage:
            next(storage.entries(), None)
    except BulkError as error:
        return str(error)
    return None
