"""`Prefer: wait=N` (RFC 7240): the answer may wait for the end of a small job."""

import re
from typing import Annotated

from fastapi import Header

LONGEST = 60
WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*", re.IGNORECASE)

Prefer = Annotated[
    str | None,
    Header(
        description=f"`wait=N`: answer when the job is over, or after N seconds, at most {LONGEST}.", max_length=1_000
    ),
]


def seconds_to_wait(prefer: str | None) -> int | None:
    """Return how many seconds the answer may wait; None if nobody asks for that. A preference that cannot be read is
    ignored, as the standard wants it."""
    for part in (prefer or "").split(","):
        found = WAIT.fullmatch(part.partition(";")[0])
        if found:
            return min(int(found[1]), LONGEST)
    return None
