"""What the commands of notices print for programs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SubscriptionRemoved:
    """A subscription that gets no more notices."""

    subscription: str


@dataclass(frozen=True)
class SubscriptionMade:
    """A subscription that was made just now, with the secret that signs its notices."""

    subscription: str
    secret: str


@dataclass(frozen=True)
class SubscriptionLine:
    """A subscription, with its receiver and the events that it is told of."""

    subscription: str
    receiver: str
    owner: str
    all_owners: bool
    types: list[str]
    error_rate: float
    silent_hours: float
    private: bool


@dataclass(frozen=True)
class NoticeTried:
    """What came of a notice that was sent for a trial."""

    delivered: bool
    status: int | None
    message: str
