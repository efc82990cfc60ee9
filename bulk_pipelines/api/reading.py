"""Most requests are quick reads. No more of them are under way at once than there are connections. The others wait in
the event loop, where they hold no thread."""

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
