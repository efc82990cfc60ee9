"""Arrays in memory pages of their own."""

from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


def room(size: int, dtype: type[Any]) -> "npt.NDArray[Any]":
    """Return an array of zeros in memory pages of its own, which are given back as soon as nobody has the array."""
    if not size:
        return np.zeros(0, dtype)
    return np.frombuffer(mmap(-1, size * np.dtype(dtype).itemsize), dtype)


def apart(array: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
    """Return a copy in pages of its own. What is kept of a chunk would otherwise lie between what is let go, and the
    process would hold both."""
    copy = room(array.size, array.dtype.type)
    copy[:] = array
    return copy
