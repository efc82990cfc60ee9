"""Near-doubles against a slow and obvious oracle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.processing.image.doubles import NONE, first_like, pairs

hashes = st.lists(
    st.tuples(st.integers(0, 6), st.sets(st.integers(0, 63), max_size=8)).map(
        lambda each: (0x0123_4567_89AB_CDEF * each[0] ^ sum(1 << bit for bit in each[1])) % 2**64
    ),
    max_size=40,
)


def apart(a: int, b: int) -> int:
    return (a ^ b).bit_count()


@given(hashes, st.integers(0, 16))
def test_the_first_one_before_it_that_is_alike(found: list[int], near: int) -> None:
    said = first_like(np.array(found, np.uint64), near)
    for place, each in enumerate(found):
        before = [other for other in range(place) if apart(found[other], each) <= near]
        assert said[place] == (before[0] if before else NONE)


@given(hashes, hashes, st.integers(0, 16))
def test_all_pairs_that_are_alike_and_no_others(mine: list[int], theirs: list[int], near: int) -> None:
    said = set()
    for left, right in pairs(np.array(mine, np.uint64), np.array(theirs, np.uint64), near):
        said |= set(zip(left.tolist(), right.tolist(), strict=True))
    assert said == {(a, b) for a in range(len(mine)) for b in range(len(theirs)) if apart(mine[a], theirs[b]) <= near}
