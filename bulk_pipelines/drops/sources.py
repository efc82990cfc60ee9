"""Which sources are looked at, and what becomes of their files: read from a TOML file."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bulk_pipelines.database import folders
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import addresses, paths
from bulk_pipelines.storage.paths import Pattern

FIELD = "BULK_DROPS_FILE"
VALUES: dict[object, tuple[Any, str]] = {float: (int | float, "a number"), int: (int, "a whole number")}
"""What fields of these types take; all others are texts."""
FORMATS = ("csv", "ndjson", "json")
ON_ERROR = re.compile(r"continue|abort|\d+|(\d+)%")
"""What imports take: told when the file is read, and not only when a file is dropped."""


class After(StrEnum):
    """What is done with a file once its import is over."""

    LEAVE = "leave"
    MOVE = "move"
    DELETE = "delete"


@dataclass(frozen=True)
class Rule:
    """Files that match, and how they are imported. The first rule of a source that matches a file holds for it."""

    glob: str
    resource: str
    format: str | None = None
    mode: str = "insert"
    on_error: str = "continue"


@dataclass(frozen=True)
class DropSource:
    name: str
    where: str
    rules: tuple[Rule, ...]
    after: After = After.LEAVE
    done_folder: str = "done"
    """With `move`: where files go after success, in the same storage."""
    failed_folder: str | None = None
    """Where files go whose import failed; without it they stay where they are."""
    marker: str | None = None
    """A file is complete once one named like it, with this ending, is there; without it: once it stops changing."""
    settle_seconds: float = 2.0
    stalled_seconds: float = 3_600.0
    max_files: int = 500
    max_bytes: int = 1_000_000_000

    @property
    def scheme(self) -> str:
        return addresses.parse(self.where, FIELD).scheme

    @property
    def folder(self) -> str | None:
        """Of this machine; None where the source lies elsewhere."""
        address = addresses.parse(self.where, FIELD)
        return address.path if address.scheme == "file" else None

    def import_address(self, url: str) -> str:
        """By which an import reads the file at this address: with the password that the source's own address names."""
        address = addresses.parse(self.where, FIELD)
        if not address.user or address.password is None:
            return url
        head, _, rest = url.partition("@")
        return f"{head}:{quote(address.password, safe='')}@{rest}"

    def rule_for(self, path: str) -> Rule | None:
        return next((rule for rule in self.rules if Pattern(rule.glob).matches(path)), None)


def standard(inbox: Path, resources: Sequence[str]) -> DropSource:
    """Where no file names sources: one folder, whose files say by their names what they are."""
    rules = tuple(Rule(f"{name}*", name) for name in resources)
    return DropSource("inbox", str(inbox), rules, After.MOVE, failed_folder="failed")


def load(path: Path, resources: Sequence[str], inbox: Path) -> list[DropSource]:
    """The sources of the file; where there is none, the standard one, whose folder is made."""
    if not path.exists():
        folders.ready(inbox)
        return [standard(inbox, resources)]
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(FIELD, f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(FIELD, f"{path} is not TOML: {error}") from None
    tables = document.get("source", [])
    if set(document) - {"source"} or not are_tables(tables):
        raise InvalidInput(FIELD, f"{path} holds something else than [[source]] tables")
    found = [source_of(table, f"source {number}", resources) for number, table in enumerate(tables, 1)]
    names = [source.name for source in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(FIELD, f"two sources are named {name!r}")
    return found


def source_of(table: Mapping[str, Any], place: str, resources: Sequence[str]) -> DropSource:
    values = dict(table)
    files = values.pop("files", [])
    check(values, DropSource, place, {"rules"})
    for required in ("name", "where"):
        if not values.get(required):
            raise InvalidInput(FIELD, f"{place}: {required} is missing")
    place = f"source {values['name']!r}"
    if not files:
        raise InvalidInput(FIELD, f"{place}: it has no [[source.files]], so nothing would ever be taken")
    if not are_tables(files):
        raise InvalidInput(FIELD, f"{place}: files: not [[source.files]] tables")
    rules = tuple(rule_of(each, place, resources) for each in files)
    if "after" in values:
        values["after"] = choice(After, values["after"], f"{place}: after")
    source = DropSource(**values, rules=rules)
    check_address(source.where, place)
    if min(source.settle_seconds, source.stalled_seconds) < 0 or min(source.max_files, source.max_bytes) < 1:
        raise InvalidInput(FIELD, f"{place}: settle_seconds, stalled_seconds, max_files and max_bytes must be positive")
    if "" in (source.marker, source.failed_folder):
        raise InvalidInput(FIELD, f"{place}: marker and failed_folder must not be empty: leave them out")
    for name, folder in {"done_folder": source.done_folder, "failed_folder": source.failed_folder}.items():
        # Written in another way, the folder's own files would be taken for dropped ones.
        if folder is not None and (fault := paths.fault(folder)):
            raise InvalidInput(FIELD, f"{place}: {name}: {folder!r} {fault}")
    return source


def rule_of(table: Mapping[str, Any], place: str, resources: Sequence[str]) -> Rule:
    check(table, Rule, f"{place}: files", set())
    for required in ("glob", "resource"):
        if not table.get(required):
            raise InvalidInput(FIELD, f"{place}: files: {required} is missing")
    if table["resource"] not in resources:
        raise InvalidInput(FIELD, f"{place}: {table['resource']!r} is not a resource: {', '.join(resources)}")
    if table.get("mode", "insert") not in ("insert", "upsert"):
        raise InvalidInput(FIELD, f"{place}: mode {table['mode']!r} is neither insert nor upsert")
    if table.get("format", FORMATS[0]) not in FORMATS:
        raise InvalidInput(FIELD, f"{place}: format {table['format']!r} is none of {', '.join(FORMATS)}")
    if not is_limit(table.get("on_error", "continue")):
        told = f"{table['on_error']!r} is none of continue, abort, a number (100), or a share (5%)"
        raise InvalidInput(FIELD, f"{place}: on_error {told}")
    Pattern(table["glob"])
    return Rule(**table)


def is_limit(on_error: str) -> bool:
    found = ON_ERROR.fullmatch(on_error)
    return found is not None and (found[1] is None or int(found[1]) <= 100)


def check_address(where: str, place: str) -> None:
    """What every look would stumble over."""
    address = addresses.parse(where, FIELD)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(FIELD, f"{place}: {addresses.redacted(where)} is a web address: it has no files to look for")
    folder = address.path.strip("/") if address.scheme != "s3" else address.path.rstrip("/")
    if address.scheme != "file" and folder and (fault := paths.fault(folder)):
        raise InvalidInput(FIELD, f"{place}: where: {folder!r} {fault}")


def are_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def check(table: Mapping[str, Any], target: type, place: str, internal: set[str]) -> None:
    """The names, and what kind of value each has."""
    known = {field.name: field.type for field in fields(target) if field.name not in internal}
    for name, value in table.items():
        if name not in known:
            raise InvalidInput(FIELD, f"{place}: {name!r} is not known; known are {', '.join(sorted(known))}")
        allowed, said = VALUES.get(known[name], (str, "a text"))
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise InvalidInput(FIELD, f"{place}: {name}: {value!r} is not {said}")


def choice(options: Callable[[str], After], value: str, place: str) -> After:
    try:
        return options(value)
    except ValueError:
        raise InvalidInput(FIELD, f"{place}: {value!r} is none of {', '.join(After)}") from None
