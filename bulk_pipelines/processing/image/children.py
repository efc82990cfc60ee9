"""The processes that decode pictures. Each is used for many pictures, and one that a picture breaks costs only that
picture's item.

A child is killed when it takes longer than it may, and dies by itself when it takes more memory. The next picture gets
another one.
"""

import json
import os
import select
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bulk_pipelines.errors import Permanent, Transient

PROGRAM = Path(__file__).with_name("child.py")
PIECE = 1 << 20
MOST_SERVED = 1_000
"""How many pictures a child decodes before it is replaced, so that leaks of memory cannot add up."""
LARGEST_ANSWER = 32 << 20


@dataclass(frozen=True)
class Spec:
    """What is wanted of a picture, and what it may cost."""

    thumbnail: int
    """The longest side of the thumbnail; 0: none."""
    format: str
    pixels: int
    seconds: float


@dataclass(frozen=True)
class Seen:
    """What a child saw, and the thumbnail."""

    found: dict[str, Any]
    thumbnail: bytes


class Undecoded(Permanent):
    """The bytes are no picture of a known format."""


class Died(Exception):
    """The child died, or had to be killed."""


class Child:
    """One process."""

    def __init__(self, memory: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), json.dumps({"memory": memory})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"},
            cwd="/",
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.given, self.said = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.given, False)
        os.set_blocking(self.said, False)
        self.served = 0

    def ask(self, data: bytes, spec: Spec) -> Seen:
        deadline = time.monotonic() + spec.seconds
        text = json.dumps(vars(spec) | {"size": len(data)}).encode()
        self.send(struct.pack(">I", len(text)) + text, deadline)
        self.send(data, deadline)
        found = json.loads(self.receive(struct.unpack(">I", self.receive(4, deadline))[0], deadline))
        self.served += 1
        return Seen(found, self.receive(found.pop("size"), deadline))

    def send(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self.wait(self.given, select.POLLOUT, deadline)
            try:
                left = left[os.write(self.given, left[:PIECE]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Died from None

    def receive(self, size: int, deadline: float) -> bytes:
        if size > LARGEST_ANSWER:
            raise Died
        found = bytearray()
        while len(found) < size:
            self.wait(self.said, select.POLLIN, deadline)
            piece = os.read(self.said, min(PIECE, size - len(found)))
            if not piece:
                raise Died
            found += piece
        return bytes(found)

    def wait(self, end: int, event: int, deadline: float) -> None:
        looking = select.poll()
        looking.register(end, event)
        left = deadline - time.monotonic()
        if left <= 0 or not looking.poll(left * 1000):
            raise TimeoutError

    def kill(self) -> int:
        """Kill the process, and return how it ended."""
        self.process.kill()
        status = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return status


class Children:
    """The processes that decode, at most so many. Threads share them."""

    def __init__(self, most: int, memory: int) -> None:
        self.memory = memory
        self.places = threading.Semaphore(most)
        self.lock = threading.Lock()
        self.idle: list[Child] = []

    def see(self, data: bytes, spec: Spec) -> Seen:
        """Let a child look at a picture. Raise `Permanent` when the picture is to blame, and `Transient` when it may be
        something else."""
        with self.places:
            child = self.child()
            try:
                seen = child.ask(data, spec)
            except TimeoutError:
                child.kill()
                raise Transient(f"the picture was not decoded within {spec.seconds:g} seconds") from None
            except Died:
                raise Transient(f"the process that decoded the picture died ({ended(child.kill())})") from None
            except BaseException:
                child.kill()
                raise
            self.give_back(child, spent=bool(seen.found.get("spent")))
        if "error" in seen.found:
            raise (Undecoded if seen.found.get("unknown") else Permanent)(str(seen.found["error"]))
        return seen

    def child(self) -> Child:
        with self.lock:
            while self.idle:
                child = self.idle.pop()
                if child.process.poll() is None:
                    return child
                child.kill()
        return Child(self.memory)

    def give_back(self, child: Child, *, spent: bool) -> None:
        if spent or child.served >= MOST_SERVED:
            child.kill()
            return
        with self.lock:
            self.idle.append(child)

    def close(self) -> None:
        with self.lock:
            while self.idle:
                self.idle.pop().kill()


def ended(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


OPEN: dict[tuple[int, int, int], Children] = {}
OPENING = threading.Lock()


def shared(most: int, memory: int) -> Children:
    """Return the children of this process. A process that was forked gets children of its own."""
    with OPENING:
        return OPEN.setdefault((os.getpid(), most, memory), Children(most, memory))
