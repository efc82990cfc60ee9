"""What a subscription asks for, checked once: where notices go, and of which events."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import httpx

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import InvalidInput

KIND = "notice"
"""What the engine calls this kind of job."""

LONGEST_ADDRESS = 2_000
HOUR = 3_600.0


class EventType(StrEnum):
    """An event that a subscriber can be told of."""

    JOB_ENDED = "job.ended"
    JOB_FAILED = "job.failed"
    DEAD_LETTERS = "job.dead_letters"
    ERROR_RATE = "job.error_rate"
    SOURCE_DOWN = "source.down"
    SOURCE_SILENT = "source.silent"

    @property
    def of_sources(self) -> bool:
        return self in (EventType.SOURCE_DOWN, EventType.SOURCE_SILENT)


@dataclass(frozen=True)
class Subscription:
    """A subscription: who is told of which events, and where."""

    subscription_id: str
    owner: str
    address: str
    secret: str = field(repr=False)
    types: tuple[EventType, ...] = tuple(EventType)
    all_owners: bool = False
    error_rate: float = 0.1
    """The share of errors above which `job.error_rate` is told."""
    silent_seconds: float = 24 * HOUR
    """The time without a dropped file after which `source.silent` is told."""
    private: bool = False
    """Whether the receiver may lie in a private network or on this machine."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(EventType(each) for each in self.types))

    @property
    def shown(self) -> str:
        """The receiver as it may be shown, without the rest of its address, which is often a secret."""
        url = httpx.URL(self.address)
        return f"{url.scheme}://{url.netloc.decode()}/…"

    def wants(self, event_type: EventType, owner: str | None) -> bool:
        return event_type in self.types and (self.all_owners or (owner is not None and owner == self.owner))

    def checked(self) -> Self:
        """Return the subscription. Raise `InvalidInput` if it asks for something that cannot be done."""
        if not payload.text("owner", self.owner).strip():
            raise InvalidInput("owner", "is blank")
        check_address(self.address)
        check_types(self.types, self.all_owners)
        if not 0 <= self.error_rate < 1:
            raise InvalidInput("error-rate", f"{self.error_rate:g} is no share from 0 to 1")
        if not 60 <= self.silent_seconds < math.inf:
            raise InvalidInput("silent-after", "is shorter than a minute")
        return self


def check_types(types: Collection[EventType], all_owners: bool) -> None:
    if not types:
        raise InvalidInput("on", f"names no event; known: {', '.join(EventType)}")
    lonely = sorted(each for each in types if each.of_sources)
    if lonely and not all_owners:
        raise InvalidInput("on", f"{lonely[0]} concerns no owner: it needs --all-owners")


def check_address(address: str) -> None:
    try:
        url = httpx.URL(payload.text("address", address, LONGEST_ADDRESS))
    except (httpx.InvalidURL, TypeError):
        raise InvalidInput("address", "is no address of a web server") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise InvalidInput("address", "is no address of a web server: https://host/path")
    if url.userinfo:
        raise InvalidInput("address", "holds a password: the receiver knows us by the signature")
    if url.fragment:
        raise InvalidInput("address", "holds a fragment, which no server gets")
