"""Takes from root the right to read and write everything, whatever the modes of folders say. Tests of modes do without
that right, and so do the servers of tests. Also takes from a thread that files can be locked, as some file systems do.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OVERRIDE, READ_SEARCH = 1, 2
"""The numbers of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
VERSION = 0x20080522
DROP_FOR_GOOD = 24
"""The number of PR_CAPBSET_DROP."""
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
FLOCK = {"x86_64": 73, "aarch64": 32}
"""The number of the system call, by machine."""
LOAD, IS_EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSED, ALLOWED = 0x00050000, 0x7FFF0000


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


class Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def no_locks_for_good() -> None:
    """Let the kernel refuse every lock that this thread asks for, as NFS refuses those of folders, until the thread
    ends."""
    steps = (
        Instruction(LOAD, 0, 0, 0),  # the number of the call
        Instruction(IS_EQUAL, 0, 1, FLOCK[os.uname().machine]),
        Instruction(RETURN, 0, 0, REFUSED | errno.EBADF),
        Instruction(RETURN, 0, 0, ALLOWED),
    )
    program = Program(len(steps), (Instruction * len(steps))(*steps))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libc.prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
