"""`Idempotency-Key`: the same request again is answered with the job of the first one."""

from typing import Annotated

from fastapi import Header

from bulk_pipelines.engine.intake import payload

LONGEST = 255

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same request with the same key of the same owner is answered with the same job.",
        max_length=LONGEST,
    ),
]


def checked(key: str | None) -> str | None:
    """Return the key. A key in quotes, as the standard has it, is the key between them."""
    if key is None:
        return None
    quoted = len(key) > 2 and key.startswith('"') and key.endswith('"')
    return payload.text("Idempotency-Key", key[1:-1] if quoted else key, LONGEST)
