"""Records of NDJSON, and of arrays of JSON."""

import io
import json
import re
from collections.abc import Iterator

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.json_objects import Doubled, pairs_once, refuse_constant
from bulk_pipelines.processing.intake.rows import LARGEST, Row, checked_row, unreadable

PIECE = 1 << 18
SPACE = re.compile(r"[ \t\r\n]*")


def of_lines(lines: Iterator[str], skipped: int = 0) -> Iterator[Row]:
    for number, line in enumerate(lines, 1 + skipped):
        if line.strip():
            yield record_of(line, number)


def of_array(head: str, text: io.TextIOWrapper) -> Iterator[Row]:
    decoder = json.JSONDecoder(object_pairs_hook=pairs_once, parse_constant=refuse_constant)
    rest = head.lstrip()[1:]
    number, first = 0, True
    while True:
        rest = (held := SPACE.sub("", rest, count=1)) or text.read(PIECE)
        if not rest:
            raise InvalidInput("source", f"the JSON array is never closed: it breaks off behind element {number}")
        if not held:
            continue
        if rest[0] == "]" and (first or number):
            check_behind(rest[1:], text)
            return
        if not first:
            if rest[0] != ",":
                raise InvalidInput("source", f"behind element {number} of the JSON array there is no comma")
            rest = rest[1:].lstrip() or text.read(PIECE)
        number += 1
        value, rest = element(decoder, rest, text, number)
        first = False
        yield value


def element(decoder: json.JSONDecoder, rest: str, text: io.TextIOWrapper, number: int) -> tuple[Row, str]:
    """Take one element from the front of the text, reading more as it needs."""
    while True:
        rest = rest.lstrip()
        try:
            value, stop = decoder.raw_decode(rest)
            if stop < len(rest):  # a number at the end of what was read may go on
                return checked_row(value, number), rest[stop:]
        except Doubled as error:
            raise InvalidInput("source", f"element {number} of the JSON array: {error}") from None
        except RecursionError:
            raise InvalidInput("source", f"element {number} of the JSON array is nested too deep") from None
        except ValueError:
            pass
        more = "" if len(rest) > 2 * LARGEST else text.read(max(PIECE, len(rest)))
        if not more:
            raise InvalidInput("source", f"element {number} of the JSON array cannot be read, or is never closed")
        rest += more


def check_behind(rest: str, text: io.TextIOWrapper) -> None:
    while True:
        if rest.strip():
            raise InvalidInput("source", "there is more behind the end of the JSON array")
        rest = text.read(PIECE)
        if not rest:
            return


def record_of(line: str, number: int) -> Row:
    try:
        value = json.loads(line, object_pairs_hook=pairs_once, parse_constant=refuse_constant)
    except RecursionError:
        return unreadable("nested too deep", number, line)
    except ValueError as error:
        return unreadable(f"not JSON: {error}", number, line)
    return checked_row(value, number, line)
