"""API keys: they are shown once, and only their hashes are kept."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.errors import InvalidInput, NotFound

PREFIX = "bulk"
SECRET_BYTES = 32
"""How many random bytes a secret has. Nobody can guess so many, so a plain hash of them is safe to keep."""


class Scope(StrEnum):
    """What a key may do. Each scope may do what those before it may."""

    RECONCILE = "reconcile"
    """Ask references, and nothing else. Such a key may stand in an address."""
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class Key:
    """What is kept of a key: everything but its secret."""

    key_id: str
    owner: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", Scope(self.scope))

    @property
    def state(self) -> str:
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= datetime.now(UTC):
            return "expired"
        return "valid"


def create(connection: Connection, owner: str, scope: Scope, expires_at: datetime | None, by: Actor) -> tuple[Key, str]:
    """Make a key, and return it with its text, which nobody can find out again."""
    name = payload.text("owner", owner).strip()
    if not name:
        raise InvalidInput("owner", "is blank")
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise InvalidInput("expires", "is in the past")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(SECRET_BYTES)
    values = {"key_id": key_id, "owner": name, "scope": scope, "hash": hashed(secret), "expires_at": expires_at}
    with connection.cursor(row_factory=class_row(Key)) as cursor:
        key = cursor.execute(queries.text("keys", "insert_key"), values).fetchone()
    assert key is not None
    audit.note_other(connection, by, "create key", name, key_id=key_id, scope=scope)
    return key, f"{PREFIX}_{key_id}_{secret}"


def revoke(connection: Connection, key_id: str, by: Actor) -> Key:
    """Revoke the key: it is refused from now on. To revoke it again changes nothing."""
    with connection.cursor(row_factory=class_row(Key)) as cursor:
        revoked = cursor.execute(queries.text("keys", "revoke_key"), {"key_id": key_id}).fetchone()
        if revoked is not None:
            audit.note_other(connection, by, "revoke key", revoked.owner, key_id=key_id)
            return revoked
        known = cursor.execute(queries.text("keys", "find_key"), {"key_id": key_id}).fetchone()
    if known is None:
        raise NotFound(f"no key has the id {key_id!r}: bulk keys list shows them")
    return known


def every(connection: Connection) -> list[Key]:
    with connection.cursor(row_factory=class_row(Key)) as cursor:
        return cursor.execute(queries.text("keys", "keys")).fetchall()


def exist(connection: Connection) -> bool:
    """Whether a key was ever made here. From then on nobody is let in without one."""
    row = connection.execute(queries.text("keys", "any_key")).fetchone()
    return bool(row and row[0])


def verified(connection: Connection, text: str) -> Key | None:
    """Return the key of this text, if it is a valid one."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != PREFIX or not key_id.isalnum() or not key_id.isascii() or not secret:
        return None
    row = connection.execute(queries.text("keys", "hash_of_key"), {"key_id": key_id}).fetchone()
    if row is None or not hmac.compare_digest(bytes(row[0]), hashed(secret)):
        return None
    with connection.cursor(row_factory=class_row(Key)) as cursor:
        key = cursor.execute(queries.text("keys", "find_key"), {"key_id": key_id}).fetchone()
    if key is None or key.state != "valid":
        return None
    connection.execute(queries.text("keys", "note_use"), {"key_id": key_id})
    return key


def hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
