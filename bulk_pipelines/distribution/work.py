"""Working an item of a distribution. Each input is an item; working it puts one file where it belongs, or finds an
earlier file that is used again.

Writing to the storage may be repeated: each input of a job has one name, files are written whole, and a later one
replaces the earlier. What is written to the database, the item's result and the registry's row, commits once, together.
"""

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.files import data, registry, reuse
from bulk_pipelines.distribution.files.contents import Contents, Weight
from bulk_pipelines.distribution.files.data import Chunk, Content, Query, Stream
from bulk_pipelines.distribution.files.reuse import Artifact, ReusePolicy
from bulk_pipelines.distribution.files.target import Target
from bulk_pipelines.distribution.request import Input, stored
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.outcomes import Done, Outcome, Unfinished
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Permanent, Throttled

STREAMS = 3
"""How many large files one process produces at a time. Each holds a database connection for as long as it takes."""
WHOLE = 4 << 20
"""A streamed file of up to so many bytes is held in memory and written at once, like the others."""


@dataclass(frozen=True)
class Claim:
    """What the items of one claim share in memory."""

    inputs: dict[int, Input]
    artifacts: dict[Input, Artifact]
    contents: Contents


class Interrupted(Exception):
    """The worker had to stop while it was writing a large file, of which nothing is published."""


class Distributor:
    def __init__(
        self,
        open_target: Callable[[], Target],
        query: Query,
        policy: ReusePolicy,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self.open_target = open_target
        self.query = query
        self.policy = policy
        self.today = today
        self.weight = Weight()
        self.streams = threading.BoundedSemaphore(STREAMS)

    @cached_property
    def target(self) -> Target:
        """Return the place for the files. It is opened when it is first needed, and so not before the worker's process
        is forked."""
        return self.open_target()

    def prepare(self, leases: Sequence[Lease], tools: Tools) -> None:
        inputs = {lease.item_id: stored(lease.input) for lease in leases}
        today = self.today()
        old_enough = [wanted for wanted in inputs.values() if self.policy.allows(wanted, today)]
        artifacts: dict[Input, Artifact] = {}
        if old_enough:
            with transaction(tools.pool) as connection:
                artifacts = registry.find(connection, old_enough)
        fresh = [(item_id, wanted) for item_id, wanted in inputs.items() if wanted not in artifacts]
        tools.prepared = Claim(inputs, artifacts, Contents(tools.pool, self.query, fresh, self.weight))

    def handle(self, lease: Lease, tools: Tools) -> Outcome:
        begun = time.monotonic()
        claim: Claim = tools.prepared
        wanted = claim.inputs[lease.item_id]
        result = self.reused(claim.artifacts.get(wanted))
        if result is None:
            key = self.target.key(tools.job.job_key, wanted)
            content = claim.contents.take(lease.item_id)
            try:
                result = self.streamed(key, wanted, tools) if content is None else self.put(key, wanted, content)
            except Interrupted:
                return Unfinished()
        return Done(result | {"seconds": round(time.monotonic() - begun, 4)})

    def reused(self, artifact: Artifact | None) -> dict[str, Any] | None:
        if artifact is None:
            return None
        key = self.target.key_of(artifact.path)
        if key is None:
            return None
        with self.told_how_long(key):
            if not reuse.stands(self.target.storage, key, artifact):
                return None
        return {
            "reused": True,
            "path": artifact.path,
            "size": artifact.size,
            "checksum": artifact.checksum,
            "rows": artifact.row_count,
            "sourceJob": artifact.source_job_key,
        }

    def put(self, key: str, wanted: Input, content: Content) -> dict[str, Any]:
        if not content.rows:
            raise no_data(wanted)
        try:
            entry = self.target.storage.put(key, content.data)
        except Throttled:
            entry = self.target.storage.put_again(key, content.data)
        checksum = hashlib.sha256(content.data).hexdigest()
        return self.generated(key, len(content.data), checksum, entry.version, content.rows, content.read_at)

    def streamed(self, key: str, wanted: Input, tools: Tools) -> dict[str, Any]:
        begun: list[Chunk] = []
        size = 0
        with self.streams:
            with data.stream(tools.pool, self.query, wanted) as stream:
                for chunk in stream.chunks:
                    begun.append(chunk)
                    size += len(chunk.data)
                    if tools.stopping():
                        raise Interrupted
                    if size > WHOLE:
                        with self.told_how_long(key):
                            return self.published(key, begun, stream, tools)
            whole = b"".join(chunk.data for chunk in begun)
            return self.put(key, wanted, Content(whole, sum(chunk.rows for chunk in begun), stream.read_at))

    def published(self, key: str, begun: list[Chunk], stream: Stream, tools: Tools) -> dict[str, Any]:
        digest, rows = hashlib.sha256(), 0
        with self.target.storage.publish(key) as sink:
            for chunk in itertools.chain(begun, stream.chunks):
                sink.write(chunk.data)
                digest.update(chunk.data)
                rows += chunk.rows
                if tools.stopping():
                    raise Interrupted
        entry = self.target.storage.stat(key)
        return self.generated(key, sink.size, digest.hexdigest(), entry.version, rows, stream.read_at)

    @contextmanager
    def told_how_long(self, key: str) -> Iterator[None]:
        """Add the storage's Retry-After to a `Throttled` that says nothing of it. `put` can be tried again at once to
        hear it; other requests cannot."""
        try:
            yield
        except Throttled as error:
            if error.retry_after is None:
                error.retry_after = self.target.storage.patience(key)
            raise

    def generated(
        self, key: str, size: int, checksum: str, version: str, rows: int, read_at: datetime
    ) -> dict[str, Any]:
        return {
            "reused": False,
            "path": self.target.path(key),
            "size": size,
            "checksum": checksum,
            "version": version,
            "rows": rows,
            "generatedAt": read_at.isoformat(),
        }


def no_data(wanted: Input) -> Permanent:
    return Permanent(f"there is no data of {wanted.index_key} for {wanted.effective_date:%Y-%m-%d} as {wanted.asof}")
