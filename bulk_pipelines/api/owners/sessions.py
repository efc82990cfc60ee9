"""Sessions: a browser shows a key once and bears a cookie from then on. Only the hash of the cookie is kept. A session
may do what its key may, and ends with it."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Key, Scope
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Actor

COOKIE = "bulk_session"
FORM_COOKIE = "bulk_form"
"""What the tokens of forms are made of, also before anybody has logged in."""
TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105 - the name of a header
CHANGE_MINUTES = 15
"""How old the secret of a session may be. A session that is used after that gets another one."""


@dataclass(frozen=True)
class Session:
    """A session that is valid now, and whose it is."""

    session_id: str
    owner: str
    scope: Scope
    key_id: str
    is_old: bool
    """Whether its secret is to be changed."""


def begin(connection: Connection, key: Key, by: Actor, hours: int) -> str:
    """Begin a session of a key, and return the text of its cookie."""
    session_id, secret = secrets.token_hex(8), secrets.token_urlsafe(keys.SECRET_BYTES)
    connection.execute(queries.text("sessions", "remove_ended"))
    values = {"session_id": session_id, "key_id": key.key_id, "hash": keys.hashed(secret), "hours": hours}
    connection.execute(queries.text("sessions", "insert_session"), values)
    audit.note_other(connection, by, "log in", key.owner, key_id=key.key_id)
    return f"{session_id}_{secret}"


def find(connection: Connection, text: str) -> Session | None:
    """Return the session of this cookie, if it is a valid one."""
    session_id, _, secret = text.partition("_")
    if not session_id.isalnum() or not session_id.isascii() or not secret:
        return None
    values = {"session_id": session_id, "minutes": CHANGE_MINUTES}
    row = connection.execute(queries.text("sessions", "find_session"), values).fetchone()
    if row is None:
        return None
    owner, scope, key_id, known, former, is_old = row
    given = keys.hashed(secret)
    if hmac.compare_digest(bytes(known), given):
        return Session(session_id, owner, Scope(scope), key_id, is_old)
    if former is not None and hmac.compare_digest(bytes(former), given):
        return Session(session_id, owner, Scope(scope), key_id, is_old=False)
    return None


def valid(connection: Connection) -> frozenset[str]:
    """Return the ids of all sessions that are valid now."""
    return frozenset(row[0] for row in connection.execute(queries.text("sessions", "valid_sessions")))


def changed(connection: Connection, text: str) -> str | None:
    """Give a session another secret, and return the text of its cookie; None if another request did so."""
    session_id, _, secret = text.partition("_")
    fresh = secrets.token_urlsafe(keys.SECRET_BYTES)
    values = {"session_id": session_id, "known": keys.hashed(secret), "hash": keys.hashed(fresh)}
    row = connection.execute(queries.text("sessions", "change_secret"), values).fetchone()
    return None if row is None else f"{session_id}_{fresh}"


def end(connection: Connection, session: Session, by: Actor) -> None:
    connection.execute(queries.text("sessions", "end_session"), {"session_id": session.session_id})
    audit.note_other(connection, by, "log out", session.owner, key_id=session.key_id)


def token_of(cookies: Mapping[str, str], session_id: str) -> str:
    """Return the token that forms of this browser bear. A page from elsewhere knows neither of its two parts."""
    return hmac.new(cookies.get(FORM_COOKIE, "").encode(), session_id.encode(), hashlib.sha256).hexdigest()


def is_token(cookies: Mapping[str, str], session_id: str, given: str) -> bool:
    """Whether this is the token of this browser's forms."""
    known = token_of(cookies, session_id)
    return bool(cookies.get(FORM_COOKIE)) and hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))
