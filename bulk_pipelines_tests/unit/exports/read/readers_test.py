"""Several readers: the order of the parts, bounded memory, failures, and that all ends when nobody reads on."""

import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulk_pipelines.errors import Cancelled
from bulk_pipelines.exports.read import readers
from bulk_pipelines.exports.read.readers import Reader, in_order
from bulk_pipelines_tests.scenes.today import examples
from bulk_pipelines_tests.scenes.waiting import until


@dataclass(frozen=True)
class Number:
    value: int
    nbytes: int = 1


@dataclass
class Numbers:
    """A reader whose parts are lists of numbers; `slowly` is called before each of them."""

    parts: list[list[Number]]
    slowly: Callable[[], object] = lambda: None
    cancelled: threading.Event = field(default_factory=threading.Event)
    read_so_far: int = 0

    def read(self, part: int) -> Generator[Number]:
        for number in self.parts[part]:
            self.slowly()
            self.read_so_far += 1
            yield number

    def cancel(self) -> None:
        self.cancelled.set()


def opener(reader: Reader[Number]) -> Callable[[], AbstractContextManager[Reader[Number]]]:
    @contextmanager
    def opened() -> Iterator[Reader[Number]]:
        yield reader

    return opened


def taken(reader: Numbers, count: int, cancelled: Callable[[], bool] = lambda: False) -> Generator[Number]:
    return in_order(opener(reader), count, len(reader.parts), lambda: None, cancelled)


def exports_running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "export"]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.lists(st.integers(), max_size=5), min_size=1, max_size=12), st.integers(1, 4), st.randoms())
def test_the_pieces_come_in_the_order_of_the_parts(parts: list[list[int]], count: int, chance: random.Random) -> None:
    pause = threading.Event()
    reader = Numbers([[Number(n) for n in part] for part in parts], lambda: pause.wait(chance.random() / 1000))
    assert [each.value for each in taken(reader, count)] == [n for part in parts for n in part]
    assert not exports_running()


def test_a_reader_that_is_ahead_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "ROOM", 10)
    reader = Numbers([[Number(n, nbytes=4) for n in range(100)]])
    pieces = taken(reader, 1)
    assert next(pieces) == Number(0, 4)
    until(lambda: reader.read_so_far >= 4, "the reader has read ahead")
    assert reader.read_so_far <= 6
    assert len(list(pieces)) == 99


@pytest.mark.parametrize("count", [1, 3])
def test_readers_do_not_run_ahead_through_small_parts(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(readers, "ROOM", 10)
    reader = Numbers([[Number(part, nbytes=4)] for part in range(100)])
    pieces = taken(reader, count)
    assert next(pieces) == Number(0, 4)
    until(lambda: reader.read_so_far >= 4, "the readers have read ahead")
    pieces_held = 10 // 4 + 1 + count
    assert not threading.Event().wait(0.2)
    assert reader.read_so_far <= 1 + pieces_held + 1
    assert [each.value for each in pieces] == list(range(1, 100))


def test_a_failure_of_a_reader_is_raised_and_ends_all() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(taken(Numbers([[Number(1)], [Number(2)]], fail), 2))
    assert not exports_running()


def test_a_lane_that_cannot_open() -> None:
    def closed_door() -> AbstractContextManager[Reader[Number]]:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        list(in_order(closed_door, 2, 2, lambda: None, lambda: False))
    assert not exports_running()


def test_closing_early_cancels_and_waits_for_the_lanes() -> None:
    reader = Numbers([[Number(1)] * 3, [Number(2)] * 3])

    def stuck() -> None:
        if reader.read_so_far:
            reader.cancelled.wait()

    reader.slowly = stuck
    pieces = taken(reader, 2)
    next(pieces)
    assert exports_running()
    pieces.close()
    assert reader.cancelled.is_set()
    assert not exports_running()


def test_whoever_calls_it_off_is_heard_while_nothing_arrives() -> None:
    reader = Numbers([[Number(1)]])
    reader.slowly = reader.cancelled.wait
    with pytest.raises(Cancelled):
        list(taken(reader, 1, cancelled=lambda: True))
    assert not exports_running()


def test_what_asks_whether_to_stop_may_fail_itself() -> None:
    def lost() -> bool:
        raise PermissionError

    with pytest.raises(PermissionError):
        list(taken(Numbers([[Number(1)]]), 1, cancelled=lost))
    assert not exports_running()
