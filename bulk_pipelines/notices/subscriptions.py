"""Subscriptions in the database. Each has a secret of its own, which is shown once, when it is made."""

import base64
import secrets
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.errors import NotFound
from bulk_pipelines.notices.request import EventType, Subscription

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def add(
    connection: Connection,
    by: Actor,
    owner: str,
    address: str,
    types: Collection[EventType],
    **terms: Any,
) -> Subscription:
    """Make a subscription, and return it with its secret. `terms` are the other fields of a subscription."""
    name, wanted = f"sub_{secrets.token_hex(6)}", tuple(dict.fromkeys(types))
    made = Subscription(name, owner, address, new_secret(), wanted, **terms).checked()
    values = asdict(made) | {"types": [each.value for each in made.types]}
    connection.execute(queries.text("notices", "add_subscription"), values)
    audit.note_other(connection, by, "add subscription", owner, subscription=made.subscription_id)
    return made


def every(connection: Connection, subscription_id: str | None = None, owner: str | None = None) -> list[Subscription]:
    """Return all subscriptions, the one with an id, or those of an owner."""
    with connection.cursor(row_factory=class_row(Subscription)) as cursor:
        name = None if subscription_id is None else payload.text("subscription", subscription_id)
        values = {"subscription_id": name, "owner": owner}
        return cursor.execute(queries.text("notices", "subscriptions"), values).fetchall()


def find(connection: Connection, subscription_id: str, owner: str | None = None) -> Subscription:
    """Return the subscription with this id. Another owner's is an unknown one."""
    found = every(connection, subscription_id, owner)
    if not found:
        raise unknown(subscription_id)
    return found[0]


def remove(connection: Connection, by: Actor, subscription_id: str, owner: str | None = None) -> None:
    values = {"subscription_id": payload.text("subscription", subscription_id), "owner": owner}
    row = connection.execute(queries.text("notices", "remove_subscription"), values).fetchone()
    if row is None:
        raise unknown(subscription_id)
    audit.note_other(connection, by, "remove subscription", row[0], subscription=subscription_id)


def unknown(subscription_id: str) -> NotFound:
    return NotFound(f"no subscription has the id {subscription_id!r}: bulk notify list shows them")
