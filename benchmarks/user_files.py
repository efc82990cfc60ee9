"""Files of users for the benchmarks: the same numbers always give the same bytes."""

import hashlib
import sys
from collections.abc import Iterator
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


def users(rows: int, start: int = 0) -> Iterator[str]:
    """The text of a CSV file, in pieces."""
    yield HEADER
    for first in range(start, start + rows, CHUNK):
        yield "".join(map(user, range(first, min(first + CHUNK, start + rows))))


def write(path: Path, rows: int) -> Path:
    """The file of so many users; made once."""
    if not path.exists():
        partial = path.with_suffix(".part")
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(users(rows))
        partial.rename(path)
    return path


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2])))
