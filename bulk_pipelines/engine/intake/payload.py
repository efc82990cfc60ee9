"""Checks of JSON and texts that come from outside, made before they are written, so that PostgreSQL never has to refuse
them."""

import json
from collections.abc import Sequence
from typing import Any

from bulk_pipelines.errors import InvalidInput

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 100
MAX_TEXT = 1_000
"""The longest text, in bytes. Two such texts fit into one entry of an index."""

CONTAINERS = (dict, list, tuple)

encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=True)
sorted_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def encode(field: str, value: object, max_bytes: int = MAX_BYTES) -> str:
    """Return the object as JSON text that a jsonb column takes. Every error message names `field`."""
    return checked(encoder, field, value, max_bytes)


def encode_all(field: str, values: Sequence[dict[str, Any] | None]) -> str:
    """Return an array of objects and nulls as JSON text. The array is encoded in one piece, which is quicker, unless
    something in it may be wrong or the whole is large: then each object is encoded and checked by itself."""
    given = [value for value in values if value is not None]
    try:
        encoded = encoder.encode(values) if all(isinstance(value, dict) for value in given) else None
    except (ValueError, TypeError, RecursionError):
        encoded = None
    if encoded is None or "\\u0000" in encoded or utf8_length(field, encoded) > MAX_BYTES:
        # One of the objects is wrong, and encode() will say so; or all of them together are large.
        return "[" + ",".join("null" if value is None else encode(field, value) for value in values) + "]"
    for value in given:
        check_shape(field, value)
    return encoded


def canonical(field: str, value: object, max_bytes: int = MAX_BYTES) -> str:
    """Return the object as JSON text that is the same for equal objects, so that requests can be compared."""
    return checked(sorted_encoder, field, value, max_bytes)


def checked(by: json.JSONEncoder, field: str, value: object, max_bytes: int) -> str:
    if not isinstance(value, dict):
        raise InvalidInput(field, f"must be a JSON object, not {type(value).__name__}")
    try:
        encoded = by.encode(value)
    except ValueError as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None
    except TypeError as error:
        raise InvalidInput(field, f"cannot be written as JSON: {error}") from None
    except RecursionError:
        raise nested_too_deep(field) from None
    # The characters are counted first, so that a text that is too long is not encoded only to be refused.
    if len(encoded) > max_bytes or (not encoded.isascii() and utf8_length(field, encoded) > max_bytes):
        raise InvalidInput(field, f"is larger than {max_bytes:,} bytes: pass a reference to the data instead")
    check_shape(field, value)
    if "\\u0000" in encoded and any("\0" in text for text in texts(value)):
        raise InvalidInput(field, "contains a NUL character, which PostgreSQL's text cannot hold")
    return encoded


def check_shape(field: str, value: dict[Any, Any]) -> None:
    """Check the object level by level: it must not have too many levels, nor a key that JSON would quietly turn into a
    text."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for each in level:
            children = each
            if isinstance(each, dict):
                check_keys(field, each)
                children = each.values()
            inner += [child for child in children if isinstance(child, CONTAINERS)]
        if not inner:
            return
        level = inner
    raise nested_too_deep(field)


def check_keys(field: str, value: dict[Any, Any]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(field, f"has the key {key!r}, which is not a text but {type(key).__name__}")


def nested_too_deep(field: str) -> InvalidInput:
    return InvalidInput(field, f"is nested more than {MAX_DEPTH} levels deep")


def utf8_length(field: str, text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidInput(field, "contains half a surrogate pair, which is not Unicode text") from None


def texts(value: Any) -> list[str]:
    """Return every string in the value, its keys included."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, dict):
            waiting.extend(each.keys())
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
    return found


def text(field: str, value: object, max_bytes: int = MAX_TEXT) -> str:
    """Check a short, non-empty text such as a key or a name, and return it."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    if not value:
        raise InvalidInput(field, "is empty")
    if len(value) > max_bytes or utf8_length(field, value) > max_bytes:
        raise InvalidInput(field, f"is longer than {max_bytes:,} bytes")
    if "\0" in value:
        raise InvalidInput(field, "contains a NUL character, which PostgreSQL's text cannot hold")
    return value


def size(field: str, value: object, most: int) -> int:
    """Check a number of rows to take, which must be from 1 to `most`, and return it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(field, f"must be a whole number, not {value!r}")
    if not 1 <= value <= most:
        raise InvalidInput(field, f"must be between 1 and {most:,}, not {value}")
    return value
