"""Several connections read the parts of one export at the same time, and their pieces come out in the order of the
parts.

Memory is bounded: when the pieces that were read ahead fill their room, the readers that are ahead wait.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from typing import Generic, Protocol, TypeVar

from bulk_pipelines.errors import Cancelled
from bulk_pipelines.exports.read.listening import LOOK, SAID

ROOM = 8 << 20
"""Bytes that are held ready at most: so many of the part whose turn it is, and so many of all later parts together."""


class Piece(Protocol):
    @property
    def nbytes(self) -> int: ...


P = TypeVar("P", bound=Piece)
P_co = TypeVar("P_co", bound=Piece, covariant=True)


class Reader(Protocol[P_co]):
    """A connection that reads parts of an export. Only `cancel` may be called from another thread."""

    def read(self, part: int) -> Generator[P_co]: ...

    def cancel(self) -> None: ...


class Unwanted(Exception):
    """Nobody wants the rest of the rows any more, so the reader ends."""


class Belt(Generic[P]):
    """The pieces that the readers have read and nobody has taken yet."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.changed = threading.Condition()
        # These three are about the parts that are begun and not yet taken whole.
        self.pieces: defaultdict[int, deque[P]] = defaultdict(deque)
        self.held: defaultdict[int, int] = defaultdict(int)
        self.ended: set[int] = set()
        self.begun = 0
        self.done = 0
        self.turn = 0
        self.ahead = 0
        self.readers: list[Reader[P]] = []
        self.joined = 0
        self.failure: BaseException | None = None
        self.stopped = False

    def join(self, reader: Reader[P]) -> None:
        with self.changed:
            self.readers.append(reader)
            self.joined += 1
            self.changed.notify_all()

    def leave(self, reader: Reader[P]) -> None:
        with self.changed:
            self.readers.remove(reader)

    def next_part(self) -> int | None:
        with self.changed:
            if self.stopped or self.begun == self.parts:
                return None
            self.begun += 1
            return self.begun - 1

    def put(self, part: int, piece: P) -> None:
        with self.changed:
            while self.full(part) and not self.stopped:
                self.changed.wait()
            if self.stopped:
                raise Unwanted
            self.pieces[part].append(piece)
            self.held[part] += piece.nbytes
            self.ahead += piece.nbytes if part != self.turn else 0
            self.changed.notify_all()

    def full(self, part: int) -> bool:
        """Whether a piece of this part has to wait. The part whose turn it is has room of its own, else the parts ahead
        of it could fill all the room and nothing would ever move."""
        return (self.held[part] if part == self.turn else self.ahead) >= ROOM

    def end(self, part: int) -> None:
        with self.changed:
            self.ended.add(part)
            self.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self.changed:
            if not self.stopped:
                self.failure = self.failure or error
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.pieces.clear()
            self.changed.notify_all()

    def cancel(self) -> None:
        """Cancel the queries of all readers. The lock is held, so that no reader can leave and close its connection
        meanwhile."""
        with self.changed:
            for reader in self.readers:
                reader.cancel()

    def wait(self, ready: Callable[[], bool], cancelled: Callable[[], bool]) -> None:
        """Block until `ready()` is true. Raise the error of a reader that failed, and `Cancelled` when `cancelled()` is
        true. The caller holds `changed`."""
        while not ready():
            if self.failure is not None:
                raise self.failure
            if cancelled():
                raise Cancelled(SAID)
            self.changed.wait(LOOK)

    def take(self, part: int, cancelled: Callable[[], bool]) -> Iterator[P]:
        with self.changed:
            if part != self.turn:
                self.turn = part
                self.ahead -= self.held[part]
            self.changed.notify_all()
        while True:
            with self.changed:
                self.wait(lambda: bool(self.pieces[part]) or part in self.ended, cancelled)
                if not self.pieces[part]:
                    self.pieces.pop(part, None)
                    self.held.pop(part, None)
                    self.ended.remove(part)
                    self.done += 1
                    return
                piece = self.pieces[part].popleft()
                self.held[part] -= piece.nbytes
                self.changed.notify_all()
            yield piece


def in_order(
    open_reader: Callable[[], AbstractContextManager[Reader[P]]],
    readers: int,
    parts: int,
    joined: Callable[[], None],
    cancelled: Callable[[], bool],
) -> Generator[P]:
    """Yield the pieces of all parts, in order. `joined` is called when every reader is open.

    Closing the generator early cancels the queries of the readers and waits for the readers to end.
    """
    belt: Belt[P] = Belt(parts)
    threads = [
        threading.Thread(target=work, args=(open_reader, belt), name="export", daemon=True) for _ in range(readers)
    ]
    for thread in threads:
        thread.start()
    try:
        with belt.changed:
            belt.wait(lambda: belt.joined == readers, cancelled)
        joined()
        for part in range(parts):
            for piece in belt.take(part, cancelled):
                if cancelled():
                    raise Cancelled(SAID)
                yield piece
    finally:
        finished = belt.done == parts
        belt.stop()
        for thread in threads:
            while thread.is_alive():
                if not finished:
                    belt.cancel()
                thread.join(LOOK)


def work(open_reader: Callable[[], AbstractContextManager[Reader[P]]], belt: Belt[P]) -> None:
    try:
        with open_reader() as reader:
            belt.join(reader)
            try:
                while (part := belt.next_part()) is not None:
                    with closing(reader.read(part)) as pieces:
                        for piece in pieces:
                            belt.put(part, piece)
                    belt.end(part)
            finally:
                belt.leave(reader)
    except BaseException as error:  # noqa: BLE001 - the taker raises it
        belt.fail(error)
