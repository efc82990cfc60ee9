"""A Ctrl-C while the program begins."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

BEGINS = """
import builtins, os, signal, sys
whole = builtins.__import__
def begun(name, *others, **more):
    if name == "click":
        builtins.__import__ = whole
        os.kill(os.getpid(), signal.SIGINT)
    return whole(name, *others, **more)
builtins.__import__ = begun
from bulk_pipelines import entry
sys.argv = ["bulk", "--version"]
entry.main()
"""
"""Sends itself the signal when it comes to the first of the imports that take time."""


def begun() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BEGINS], capture_output=True, text=True, timeout=60)


def test_it_ends_the_program_in_silence() -> None:
    done = begun()
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.fixture
def ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored")
def test_it_is_ignored_where_a_shell_says_so() -> None:
    done = begun()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("bulk, version ")
