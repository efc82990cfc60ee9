"""The answers of providers, kept in PostgreSQL: equal questions are asked once, by whichever worker comes first."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.processing.providers.provider import Provider


@dataclass(frozen=True)
class Answer:
    """A provider's answer to one question. Without a value, the provider has nothing."""

    value: Any
    asked_at: datetime | None
    """When the provider was asked; None if it was asked just now."""

    @property
    def cached(self) -> bool:
        return self.asked_at is not None


@dataclass(frozen=True)
class Serving:
    """Which kept answers may be used. Without any of these times, only the age of an answer counts."""

    since: datetime | None = None
    """Answers since this time may be used, even if their age no longer allows it."""
    not_before: datetime | None = None
    """Answers from before this time may not be used."""


def key_of(provider: Provider, place: str, question: str) -> bytes:
    """Return the key of a question. An answer is used only for the same question, asked at the same place and with the
    same headers."""
    asked = json.dumps([provider.address, provider.headers, provider.secrets, place, question])
    return hashlib.sha256(asked.encode()).digest()


def kept(connection: Connection, provider: Provider, keys: Sequence[bytes], serving: Serving) -> dict[bytes, Answer]:
    """Return the answers that are young enough."""
    rows = connection.execute(queries.text("providers", "kept_answers"), wanted(provider, keys, serving)).fetchall()
    return {bytes(key): Answer(None if nothing else answer["value"], at) for key, answer, nothing, at in rows}


def begin(
    connection: Connection, provider: Provider, keys: Sequence[bytes], serving: Serving, lease_seconds: float
) -> list[bytes]:
    """Reserve these questions, and return those that this process is to ask: nobody else asks them, or has just asked
    them."""
    values = wanted(provider, keys, serving) | {"lease_seconds": lease_seconds}
    return sorted(bytes(row[0]) for row in connection.execute(queries.text("providers", "begin_asking"), values))


def wanted(provider: Provider, keys: Sequence[bytes], serving: Serving) -> dict[str, Any]:
    return {
        "provider": provider.name,
        "requests": list(keys),
        "keep_seconds": provider.keep_seconds,
        "keep_nothing_seconds": provider.keep_nothing_seconds,
        "since": serving.since,
        "not_before": serving.not_before,
    }


def keep(connection: Connection, provider: Provider, found: Mapping[bytes, Any]) -> None:
    """Keep the answers to these questions; None means that the provider has nothing."""
    ordered = sorted(found.items())
    most = 2 * provider.answer_bytes + payload.MAX_BYTES
    values = {
        "provider": provider.name,
        "requests": [key for key, _ in ordered],
        "answers": [payload.encode("answer", {"value": value}, most) for _, value in ordered],
        "nothing": [value is None for _, value in ordered],
    }
    connection.execute(queries.text("providers", "keep_answers"), values)


def give_up(connection: Connection, provider: Provider, keys: Sequence[bytes]) -> None:
    values = {"provider": provider.name, "requests": list(keys)}
    connection.execute(queries.text("providers", "give_up_asking"), values)
