"""Quick reads, which most requests are. No more of them are under way at once than there are connections: the others
wait in the loop that serves, and not with a thread in hand."""

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Request

Result = TypeVar("Result")


async def read(request: Request, look: Callable[[], Result]) -> Result:
    """Look something up in a thread."""
    limiter: CapacityLimiter = request.app.state.reading
    return await anyio.to_thread.run_sync(look, limiter=limiter)
