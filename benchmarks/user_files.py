"""Writes files of users for the benchmarks: the same numbers always give the same bytes."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

HEADER = "id,email,name,role,active,created_at,updated_at\n"
ROLES = ("admin", "editor", "author", "reader")
FIRST = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Alan", "Radia", "Niklaus", "Margaret")
LAST = ("Lovelace", "Hopper", "Dijkstra", "Liskov", "Knuth", "Allen", "Turing", "Perlman", "Wirth", "Hamilton")
CHUNK = 10_000


def identity(number: int) -> str:
    digits = hashlib.md5(number.to_bytes(8, "big"), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def user(number: int) -> str:
    first, last = FIRST[number % 10], LAST[number // 10 % 10]
    day, second = number % 28 + 1, number % 60
    return (
        f"{identity(number)},{first}.{last}.{number}@m{number % 97}.net,{first} {last},"
        f"{ROLES[number % 4]},{'true' if number % 3 else 'false'},"
        f"2024-01-{day:02d}T08:15:{second:02d}Z,2025-06-{day:02d}T17:45:{second:02d}Z\n"
    )


def users(rows: int) -> Iterator[str]:
    """Yield the text of a CSV file of users, in pieces."""
    yield HEADER
    for first in range(0, rows, CHUNK):
        yield "".join(map(user, range(first, min(first + CHUNK, rows))))


def spoiled(rows: int, percent: float) -> Iterator[str]:
    """Yield the text of a CSV file of users of which so many in a hundred are bad, of four kinds in turn: a bad
    address, a bad role, a duplicate of an earlier row, and a row that `known` has."""
    step = round(100 / percent)
    yield HEADER
    for number in range(rows):
        kind = number // step % 4 if number % step == step - 1 else -1
        text = user(number if kind != 2 else number - step * 3 // 2)
        if kind == 0:
            text = text.replace("@", " at ")
        elif kind == 1:
            text = text.replace(f",{ROLES[number % 4]},", ",king,")
        yield text


def known(rows: int, percent: float) -> Iterator[str]:
    """Yield the text of a CSV file of the rows that the table has before a spoiled file comes."""
    step = round(100 / percent)
    yield HEADER
    for number in range(rows):
        if number % step == step - 1 and number // step % 4 == 3:
            yield user(number)


def write(path: Path, text: Iterable[str]) -> Path:
    """Write the text to a file, unless the file is there already, and return its path."""
    if not path.exists():
        partial = path.with_suffix(".part")
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(text)
        partial.rename(path)
    return path
