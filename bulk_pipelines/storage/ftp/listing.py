"""Parsing an FTP server's listings: those of MLSD where the server has it, else those of LIST as nearly all servers
write them."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

UNIX = re.compile(r"([-bcdlps])[-rwxsStTlL]{9}[+@.]?\s+\d+\s+\S+\s+\S+\s+(\d+)\s+\w{3}\s+\d{1,2}\s+[\d:]{4,5} (.+)")
WINDOWS = re.compile(r"\d\d-\d\d-\d\d(?:\d\d)?\s+\d\d:\d\d(?:AM|PM)?\s+(<DIR>|\d+)\s+(.+)")

NO_SIZE = -1


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    kind: str
    """Either `file`, `folder` or `other`."""
    size: int
    modified: datetime | None
    """The time of the last change; None where the listing does not tell it to the second."""


def facts(line: str) -> Listed:
    """Parse a line of MLSD or MLST, such as `type=file;size=5;modify=20260101000000; name`."""
    text, _, name = line.lstrip(" ").partition(" ")
    known = {key.lower(): value for key, _, value in (fact.partition("=") for fact in text.split(";") if fact)}
    kind = {"file": "file", "dir": "folder"}.get(known.get("type", "").lower(), "other")
    return Listed(name, kind, size_of(known.get("size", "0")), moment(known.get("modify", "")))


def listed(line: str) -> Listed | None:
    """Parse a line of LIST. Return None for a line that is about no file."""
    if found := UNIX.fullmatch(line):
        kind = {"-": "file", "d": "folder"}.get(found[1], "other")
        return Listed(found[3], kind, size_of(found[2]), None)
    if found := WINDOWS.fullmatch(line):
        folder = found[1] == "<DIR>"
        return Listed(found[2], "folder" if folder else "file", 0 if folder else size_of(found[1]), None)
    return None


def size_of(text: str) -> int:
    """Parse a size; `NO_SIZE` if it is none. A line that makes no sense, such as the rest of a name with a line break
    in it, must not hide the others."""
    return int(text) if re.fullmatch(r"[0-9]{1,30}", text) else NO_SIZE


def moment(text: str) -> datetime | None:
    """Parse a time as MDTM, MLSD and MLST write it: in UTC, such as `20260101120000`, sometimes with a fraction."""
    found = re.match(r"\d{14}", text)
    try:
        return datetime.strptime(found[0], "%Y%m%d%H%M%S").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
