"""Applying the declared rules to columns: finding the values that break each rule."""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import arrow
from bulk_pipelines.columns.arrow import Column, Mask, compute, to_mask
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column as Declared
from bulk_pipelines.resources.rules import EmptyWhen, MaxLength, MaxWords, OneOf, Pattern, Rule

BLANK = r"^[\s\p{Z}]*$"
WORD = r"[^\s\p{Z}]+"


def blank(text: Column) -> Mask:
    """Tell which values hold nothing but white space. Most have a visible character of ASCII in front, and need no
    closer look."""
    offsets, data = arrow.text_offsets(text), arrow.text_bytes(text)
    doubtful = to_mask(text.is_valid())
    begun = np.flatnonzero(doubtful & (offsets[1:] > offsets[:-1]))
    first = data[offsets[begun] - offsets[0]]
    doubtful[begun] = (first <= ord(" ")) | (first > ord("~"))
    if doubtful.any():
        doubtful[doubtful] = to_mask(compute.match_substring_regex(text.filter(pa.array(doubtful)), BLANK))
    return doubtful


def broken(rule: Rule, text: Column) -> Mask:
    match rule:
        case Pattern(regex=regex):
            return to_mask(compute.invert(compute.match_substring_regex(text, regex)))
        case OneOf(values=values):
            known = compute.is_in(text, pa.array(values), skip_nulls=True)
            return to_mask(compute.and_(compute.invert(known), text.is_valid()))
        case MaxLength(characters=most):
            # A character has at least one byte, so the characters of a value with few enough bytes need no counting.
            return among_longer(text, most, lambda longer: compute.greater(compute.utf8_length(longer), most))
        case MaxWords(words=most):
            # Each word has at least one byte, with another one behind every word but the last, so more words than this
            # need more than twice as many bytes.
            return among_longer(text, 2 * most, lambda longer: more_words(longer, most))


def among_longer(text: Column, size: int, judge: Callable[[Column], Column]) -> Mask:
    """Judge only the values that have more bytes than `size`; the others do not break the rule."""
    longer = to_mask(compute.greater(compute.binary_length(text), size))
    if longer.any():
        longer[longer] = to_mask(judge(text.filter(pa.array(longer))))
    return longer


def more_words(text: Column, most: int) -> Column:
    return compute.greater(compute.count_substring_regex(text, WORD), most)


def broken_together(rule: EmptyWhen, column: Column, when: Column) -> Mask:
    return to_mask(compute.and_(column.is_valid(), compute.equal(when, rule.when_value)))


FRACTIONS = {
    ColumnKind.TIME: 6,
    ColumnKind.TIMESTAMP: 6,
    ColumnKind.LOCAL_TIMESTAMP: 6,
    ColumnKind.INTERVAL: 6,
}
"""How many digits of a second PostgreSQL keeps; it rounds what is finer."""
# Texts that may tell more than their type keeps: dates with a time of day, times with an offset or the name of a zone,
# times of day with a date.
MORE = {
    "date": (b":T", r":|\dT"),
    "timestamp without time zone": (b":T", r"[:T].*[+-]|[A-Za-z][A-Za-z]|/"),
    "time without time zone": (b"+-/Tt", r"[+/-]|\d[Tt]"),
    "time with time zone": (b"-/Tt", r"[/-]|\d[Tt]"),
}
KEPT = frozenset(
    {
        "smallint",
        "integer",
        "bigint",
        "numeric",
        "real",
        "double precision",
        "boolean",
        "uuid",
        "json",
        "jsonb",
        "bytea",
    }
    | {"text", "character varying", "bpchar", "citext", "inet", "cidr", "tsvector", "xml"}
    | {"int4range", "int8range", "numrange", "int4multirange", "int8multirange", "nummultirange"}
)
"""Types that keep each value whole which they can read, if they have no length or precision. PostgreSQL is asked of all
others."""
# What the texts of arrays and ranges of these must have, so that a part of them could be lost.
SIGNS = dict.fromkeys(("date", "daterange", "datemultirange"), (b":T", r":|\dT")) | dict.fromkeys(
    ("timestamp with time zone", "tstzrange", "tstzmultirange"), (b".", r"\.\d{6}\d*[1-9]")
)
PRECISION = re.compile(r"\((\d+)(?:,(-?\d+))?\)")


def loses(column: Declared, text: Column) -> tuple[Mask | None, bool]:
    """Tell which texts have digits that PostgreSQL would drop without a word, and whether there are texts of which only
    it can tell."""
    told = PRECISION.search(column.exact_type)
    if column.kind in FRACTIONS:
        digits = int(told[1]) if told else FRACTIONS[column.kind]
        finer = None
        if arrow.has_any(text, b"."):
            finer = to_mask(compute.match_substring_regex(text, rf"\.\d{{{digits}}}\d*[1-9]"))
        return finer, column.exact_type != "interval" if column.kind is ColumnKind.INTERVAL else has_more(column, text)
    if column.kind is ColumnKind.DATE:
        return None, has_more(column, text)
    if column.kind is ColumnKind.NUMERIC and told:
        whole, scale = int(told[1]) - max(0, int(told[2] or 0)), int(told[2] or 0)
        if scale >= 0 and fit_plainly(text, whole, scale):
            return None, False
        plain = rf"^[+-]?0*\d{{0,{min(whole, 900)}}}(\.\d{{0,{min(scale, 900)}}}0*)?$" if scale >= 0 else "^$"
        fits = compute.fill_null(compute.match_substring_regex(text, plain), True)
        return None, not compute.all(fits).as_py()
    return None, column.kind in {ColumnKind.ARRAY, ColumnKind.OTHER} and may_lose_parts(column, text)


def may_lose_parts(column: Declared, text: Column) -> bool:
    """Tell whether a text of a type that is made of others, or that only PostgreSQL knows, may have more than it
    keeps."""
    plain = column.exact_type.removesuffix("[]")
    if plain in SIGNS:
        return has_signs(text, *SIGNS[plain])
    return plain not in KEPT and text.null_count < len(text)


def has_more(column: Declared, text: Column) -> bool:
    """Tell whether a text may have more than its type keeps, so that PostgreSQL must be asked."""
    return has_signs(text, *MORE.get(column.base_type, (b"", "^$")))


def has_signs(text: Column, characters: bytes, pattern: str) -> bool:
    if not arrow.has_any(text, characters):
        return False
    return bool(compute.any(compute.match_substring_regex(text, pattern)).as_py())


def fit_plainly(text: Column, whole: int, scale: int) -> bool:
    """Tell whether all texts have so few characters before and behind a point that no number written in them could have
    too many digits. This is quicker than to look at the digits."""
    points = compute.find_substring(text, ".")
    lengths = compute.binary_length(text)
    before = compute.if_else(compute.less(points, 0), lengths, points)
    fits = compute.and_(
        compute.less_equal(before, whole), compute.less_equal(compute.subtract(lengths, before), scale + 1)
    )
    return compute.all(fits).as_py() is not False and not arrow.has_any(text, b"eE")


def with_nul(values: Column) -> Mask:
    """Tell which texts hold a NUL, and which lists hold a text with one."""
    if pa.types.is_string(values.type):
        return to_mask(compute.match_substring(values, "\0"))
    mask = np.zeros(len(values), dtype=bool)
    if pa.types.is_list(values.type) and pa.types.is_string(values.type.value_type):
        parents = compute.list_parent_indices(values)
        mask[parents.filter(compute.match_substring(values.flatten(), "\0")).to_numpy()] = True
    return mask
