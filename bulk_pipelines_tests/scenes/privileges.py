"""Root may read everything, whatever a folder's mode says. Tests of modes, and servers, do without that right."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OVERRIDE, READ_SEARCH = 1, 2
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""
VERSION = 0x20080522
DROP_FOR_GOOD = 24
"""PR_CAPBSET_DROP."""


class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class Rights(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def modes_hold() -> Iterator[None]:
    """For this thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = Header(VERSION, 0), (Rights * 2)()
    assert libc.capget(ctypes.byref(header), rights) == 0
    before = rights[0].effective
    rights[0].effective = before & ~(1 << OVERRIDE | 1 << READ_SEARCH)
    assert libc.capset(ctypes.byref(header), rights) == 0
    try:
        yield
    finally:
        rights[0].effective = before
        assert libc.capset(ctypes.byref(header), rights) == 0


def modes_hold_for_good() -> None:
    """For this process, once it has become another program."""
    if sys.platform == "linux":
        for right in (OVERRIDE, READ_SEARCH):
            ctypes.CDLL(None).prctl(DROP_FOR_GOOD, right, 0, 0, 0)
