"""Takes from root the right to read and write everything, whatever the modes of folders say. Tests of modes do without
that right, and so do the servers of tests."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OVERRIDE, READ_SEARCH = 1, 2
"""The numbers of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
VERSION = 0x20080522
DROP_FOR_GOOD = 24
"""The number of PR_CAPBSET_DROP."""


class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class Rights(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def modes_hold() -> Iterator[None]:
    """Let modes hold for this thread while the block lasts, also if it is root's."""
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
    """Let modes hold for this process once it has become another program, also if it is root's. Only Linux can do
    that."""
    if sys.platform == "linux":
        for right in (OVERRIDE, READ_SEARCH):
            ctypes.CDLL(None).prctl(DROP_FOR_GOOD, right, 0, 0, 0)
