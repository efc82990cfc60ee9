"""What the commands of notices print for programs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SubscriptionAdded:
    subscription: str
    secret: str
    """It signs the notices, and is shown once."""


@dataclass(frozen=True)
class SubscriptionShown:
    subscription: str
    address: str
    """Without passwords."""
    owner: str | None
    """null: all owners."""
    types: Sequence[str]
    error_rate: float
    silent_hours: float
    private: bool


@dataclass(frozen=True)
class SubscriptionRemoved:
    subscription: str


@dataclass(frozen=True)
class NoticeTested:
    subscription: str
    answered: int
    """The status of the answer."""
