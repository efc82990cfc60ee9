"""Admission: an owner gets one more job, or is refused, and is told how much is left of the quota."""

from collections.abc import Mapping
from dataclasses import dataclass

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.owners import quotas
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import quotas as limits
from bulk_pipelines.engine.jobs import submission
from bulk_pipelines.engine.jobs.quotas import Left
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports.sent import uploads


@dataclass
class Admission:
    """Admits a job of an owner, and remembers how much more the owner may have."""

    door: Door
    owner: str
    left: Left | None = None

    def admit(self, connection: Connection, sent: int = 0, items: int = 1) -> None:
        quota = quotas.quota_of(self.door.settings)
        self.left = limits.admit(connection, self.owner, quota, items=items, sent=sent)

    def admit_new(self, connection: Connection, sender: Sender, items: int = 1) -> None:
        """Admit the job, unless its idempotency key stands for one already: then the request asks for nothing new."""
        if known(connection, sender):
            return
        if sender.idempotency_key is not None:
            uploads.refuse_arriving(connection, sender.owner, sender.idempotency_key)
        self.admit(connection, items=items)

    def count(self, connection: Connection, sent: int) -> None:
        limits.count(connection, self.owner, quotas.quota_of(self.door.settings), sent)

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.left is None else quotas.headers(quotas.quota_of(self.door.settings), self.left)

    def refuse_beyond(self, size: int) -> None:
        """Raise `OverQuota` when so many bytes are more than the owner may send."""
        with transaction(self.door.pool) as connection:
            limits.refuse_bytes(connection, self.owner, quotas.quota_of(self.door.settings), size)


def known(connection: Connection, sender: Sender) -> bool:
    """Whether the idempotency key stands for a job already."""
    key = sender.idempotency_key
    return key is not None and submission.find_by_key(connection, sender.owner, key) is not None
