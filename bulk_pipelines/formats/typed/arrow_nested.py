"""The texts of lists and structures: JSON, and arrays as PostgreSQL writes them. All of it is done by columns, however
deep they are."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, Mask, compute, nothing, to_mask
from bulk_pipelines.formats.typed.arrow_plain import edges_of, elements_of, is_list, lengths_of
from bulk_pipelines.formats.typed.arrow_values import text_of_plain

NO_TEXT = nothing(1, pa.string())[0]
CONTROL = [(chr(code), f"\\u{code:04x}") for code in range(0x20)]
SHORT = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
ESCAPES = [("\\", r"\\"), ('"', r"\""), *((mark, SHORT.get(mark, written)) for mark, written in CONTROL)]
ODD_FLOATS = (("nan", "NaN"), ("-inf", "-Infinity"), ("inf", "Infinity"))


def json_of(values: Column) -> Column:
    """Return the values as JSON; no value is null."""
    return compute.fill_null(json_or_null(values), "null")


def json_or_null(values: Column) -> Column:
    kind = values.type
    if is_list(kind):
        return joined(values, json_of, "[", ", ", "]")
    if pa.types.is_struct(kind):
        return objects(values)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return text_of_plain(values)
    if pa.types.is_floating(kind):
        return floats(values)
    return quoted(text_of_plain(values), ESCAPES)


def objects(values: Column) -> Column:
    """Write structures as objects; a pair of a map as an array of two, because its key need not be a text."""
    parts: list[Column | str] = []
    for place, field in enumerate(values.type):
        name = quoted(pa.array([field.name]), ESCAPES)[0].as_py()
        parts += [f"{', ' if place else '{'}{name}: ", json_of(compute.struct_field(values, [place]))]
    text = compute.binary_join_element_wise(*parts, "}", "") if parts else pa.repeat(pa.scalar("{}"), len(values))
    return compute.if_else(values.is_valid(), text, NO_TEXT)


def floats(values: Column) -> Column:
    """Write numbers with a point, so that they stay numbers with one. JSON has no word for those that are none."""
    text = text_of_plain(values)
    for arrow, ours in ODD_FLOATS:
        text = compute.if_else(compute.equal(text, arrow), ours, text)
    whole = compute.match_substring_regex(text, r"^-?\d+$")
    return compute.if_else(whole, compute.binary_join_element_wise(text, ".0", ""), text)


def array_of(values: Column) -> Column:
    """Return lists as PostgreSQL writes arrays; null stays null. It has no array of empty arrays, and would read an
    empty one: such lists stay JSON, which it refuses."""
    text = joined(values, element_of, "{", ",", "}")
    odd = with_empty_inside(values)
    return compute.if_else(pa.array(odd), json_or_null(values), text) if odd.any() else text


def with_empty_inside(values: Column) -> Mask:
    """Tell which lists hold a list without elements, however deep."""
    found = np.zeros(len(values), dtype=bool)
    if is_list(values.type.value_type):
        inner = elements_of(values)
        empty = to_mask(compute.equal(compute.list_value_length(inner), 0)) | with_empty_inside(inner)
        found[np.repeat(np.arange(len(values)), lengths_of(values))[empty]] = True
    return found


def element_of(values: Column) -> Column:
    """Return the elements of an array. All but numbers, which need no quotes, stand in quotes."""
    kind = values.type
    if is_list(kind):
        text = array_of(values)
    elif (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        text = text_of_plain(values)
    else:
        text = json_or_null(values) if pa.types.is_struct(kind) else text_of_plain(values)
        text = quoted(text, ESCAPES[:2])
    return compute.fill_null(text, "NULL")


def joined(values: Column, of: Callable[[Column], Column], begin: str, between: str, end: str) -> Column:
    """Join the texts of each list's elements."""
    pairs = pa.types.is_map(values.type)
    elements = elements_of(values)
    texts = pairs_of(elements) if pairs else of(elements)
    inner = compute.binary_join(pa.ListArray.from_arrays(edges_of(values), texts), between)
    text = compute.binary_join_element_wise(begin, inner, end, "")
    return compute.if_else(values.is_valid(), text, NO_TEXT)


def pairs_of(elements: Column) -> Column:
    """Write the pairs of a map as arrays of two: its keys need not be texts."""
    keys, items = elements.flatten()
    return compute.binary_join_element_wise("[", json_of(keys), ", ", json_of(items), "]", "")


def quoted(text: Column, escapes: list[tuple[str, str]]) -> Column:
    """Put texts into quotes, and escape what could not stand there."""
    if compute.any(compute.match_substring_regex(text, r'["\\\x00-\x1f]')).as_py():
        for mark, written in escapes:
            text = compute.replace_substring(text, mark, written)
    return compute.binary_join_element_wise('"', text, '"', "")
