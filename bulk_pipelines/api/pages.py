"""Lists by pages: each page begins behind the last row of the one before, so that every page costs the same."""

import base64
import binascii
from typing import Annotated

from fastapi import Query

from bulk_pipelines.errors import InvalidInput

Size = Annotated[int, Query(description="How many there are on a page.", ge=1, le=1_000)]
PageSize = Annotated[int, Query(alias="pageSize", description="How many there are on a page.", ge=1, le=1_000)]
Cursor = Annotated[str | None, Query(description="`next` of the page before.", max_length=10_000)]
LARGEST = (1 << 63) - 1


def cursor_of(number: int) -> str:
    """Return the cursor of a list that goes by a number: where its next page begins."""
    return base64.urlsafe_b64encode(str(number).encode()).decode().rstrip("=")


def after_id(cursor: str | None) -> int | None:
    """Return the number that the page begins behind; None at the beginning."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        number = int(text) if text.isdigit() else -1
    except (binascii.Error, ValueError):
        number = -1
    if not 0 <= number <= LARGEST:
        raise InvalidInput("after", "is not a cursor of this list: take it from `next` of the page before")
    return number
