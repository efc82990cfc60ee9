"""Times in addresses. A plain number is refused: if `from=20260110` counted seconds, it would be a day of 1970."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator


def moment(given: Any) -> datetime:
    """Return the time that a text names. One without a time zone is UTC."""
    try:
        found = datetime.fromisoformat(str(given))
    except ValueError:
        raise ValueError("is no time such as 2026-01-10T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


Moment = Annotated[datetime, BeforeValidator(moment)]
