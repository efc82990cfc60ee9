import numpy as np
import pyarrow as pa
import pytest

from bulk_pipelines.columns import arrow
from bulk_pipelines.columns.arrow import Column
from bulk_pipelines.imports.validate import rules

BLANK = ["", " ", "\t\r\n\f", "\u00a0", "\u3000\u2003 ", " \u2028"]
VISIBLE = ["a", " a", "~", "\x7f", "\x00", "\v", "é", "\u00a0é", "\u200b", "中 ", "  \u3000x"]


def test_what_is_blank() -> None:
    values = [text for pair in zip(BLANK * 2, VISIBLE, strict=False) for text in pair]
    text = pa.array([None, *values, None])
    assert rules.blank(text).tolist() == [False, *(each in BLANK for each in values), False]


@pytest.mark.parametrize("value", [*BLANK, *VISIBLE])
def test_a_single_text_in_the_middle_of_others(value: str) -> None:
    texts = pa.array(["before", value, "behind"]).slice(1, 1)
    assert rules.blank(texts).tolist() == [value in BLANK]


def null_behind(texts: Column, place: int) -> Column:
    """Make one of the texts null, and leave its bytes where they are."""
    _, offsets, data = texts.buffers()
    valid = np.arange(len(texts)) != place
    return pa.Array.from_buffers(pa.string(), len(texts), [arrow.bitmap(valid), offsets, data])


def test_a_null_with_bytes_behind_it_is_not_blank() -> None:
    text = null_behind(pa.array(["a", "  ", ""]), 1)
    assert rules.blank(text).tolist() == [False, False, True]


def test_no_texts_at_all() -> None:
    assert rules.blank(pa.array([], pa.string())).tolist() == []
    assert rules.blank(pa.array([None, None], pa.string())).tolist() == [False, False]
