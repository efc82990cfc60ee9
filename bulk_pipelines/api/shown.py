"""What the commands about keys print for programs."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class KeyMade:
    key_id: str
    owner: str
    scope: str
    key: str
    """The key itself, which is shown this once."""


@dataclass(frozen=True)
class KeyShown:
    key_id: str
    owner: str
    scope: str
    state: str
    """valid, expired or revoked."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
