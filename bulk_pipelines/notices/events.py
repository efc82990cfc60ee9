"""Which notices follow from an event. The end of a job may be several events for a subscription: the job has ended, it
has failed, it has left dead letters. Nothing is written here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from bulk_pipelines.notices.request import KIND, EventType, Subscription

JOB_FIELDS = {
    "kind": "kind",
    "state": "state",
    "origin": "origin",
    "created_at": "created_at",
    "started_at": "started_at",
    "finished_at": "finished_at",
    "total_items": "items",
    "succeeded_items": "succeeded",
    "not_found_items": "not_found",
    "skipped_items": "skipped",
    "cancelled_items": "cancelled",
    "dead_letters": "dead_letters",
    "error": "error",
    "request_id": "request_id",
}
"""The fields that a notice has of a job, and what the event calls them."""


class Event(NamedTuple):
    """Something that has happened, as the outbox has it."""

    event_id: int
    type: str
    owner: str | None
    subject: str
    happened_at: datetime
    data: dict[str, Any]


@dataclass(frozen=True)
class Notice:
    """What one subscription is told. Its id stays the same however often it is sent."""

    subscription_id: str
    notice_id: str
    type: EventType
    at: datetime
    owner: str | None
    data: Mapping[str, Any]
    trace_parent: str | None = None

    def as_input(self) -> dict[str, Any]:
        return {
            "subscription": self.subscription_id,
            "id": self.notice_id,
            "trace_parent": self.trace_parent,
            "body": {
                "id": self.notice_id,
                "type": self.type.value,
                "timestamp": self.at.isoformat(),
                "owner": self.owner,
                "data": dict(self.data),
            },
        }

    @property
    def key(self) -> str:
        return f"{self.notice_id}:{self.subscription_id}"


def error_rate(data: Mapping[str, Any]) -> float:
    """Return the share of errors: among the records of an import, or among the items of another job."""
    told = data.get("error_rate")
    if isinstance(told, int | float):  # the result of a kind may have anything under this name
        return float(told)
    return data["dead_letters"] / data["items"] if data.get("items") else 0.0


def types_of(data: Mapping[str, Any], subscription: Subscription) -> Iterator[EventType]:
    """Yield the types of event that the end of a job is for a subscription."""
    yield EventType.JOB_ENDED
    if data["state"] == "FAILED":
        yield EventType.JOB_FAILED
    if data["dead_letters"]:
        yield EventType.DEAD_LETTERS
    if error_rate(data) > subscription.error_rate:
        yield EventType.ERROR_RATE


def notices(event: Event, subscriptions: Iterable[Subscription]) -> Iterator[Notice]:
    """Yield the notices of the end of a job. Nobody is told of the ends of jobs that deliver notices: while a receiver
    is down, each failed job would bring about the next one, without end."""
    if event.type != EventType.JOB_ENDED or event.data["kind"] == KIND:
        return
    said = {name: event.data.get(field) for name, field in JOB_FIELDS.items()}
    said |= {"job_id": event.subject, "error_rate": round(error_rate(event.data), 6)}
    for subscription in subscriptions:
        for each in types_of(event.data, subscription):
            if subscription.wants(each, event.owner):
                yield Notice(
                    subscription.subscription_id,
                    f"evt_{event.event_id}_{each}",
                    each,
                    event.happened_at,
                    event.owner,
                    said,
                    event.data.get("trace_parent"),
                )
