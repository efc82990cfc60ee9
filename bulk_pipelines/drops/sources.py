"""The sources that are looked at, and what becomes of their files. A TOML file configures them."""

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
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import STANDARD, FileFormat, Reading
from bulk_pipelines.settings import places
from bulk_pipelines.storage import addresses, paths
from bulk_pipelines.storage.compression import Compression
from bulk_pipelines.storage.paths import Pattern

FIELD = "BULK_DROPS_FILE"
VALUES: dict[object, tuple[Any, str]] = {float: (int | float, "a number"), int: (int, "a whole number")}
"""The values that fields of these types take. All other fields are texts."""
ON_ERROR = re.compile(r"continue|abort|\d+|(\d+)%")
"""What an import takes as `on_error`. It is checked here too, so that a mistake shows when the TOML file is read, and
not only when a file is dropped."""


TARGETS = ("resource", "table", "recipe")
"""The fields of which a rule names one."""


class After(StrEnum):
    """What is done with a file once its import is over."""

    LEAVE = "leave"
    MOVE = "move"
    DELETE = "delete"


@dataclass(frozen=True)
class Rule:
    """Which files it is for, and how they are imported, or processed by a recipe. The first rule of a source that
    matches a file holds for it."""

    glob: str
    resource: str = ""
    table: str = ""
    """Any table, in place of a resource, as it is written in SQL."""
    recipe: str = ""
    """The recipe by which the rows of a file are processed; then there is neither a resource nor a table."""
    format: str | None = None
    mode: str = "insert"
    match_on: str | None = None
    on_error: str = "continue"
    compression: str | None = None
    reading: Reading = STANDARD
    """How the files are to be read. In the TOML file, its options stand beside the others."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of the import's request, but for the resource or table."""
        return {name: value for name, value in vars(self).items() if name not in {"glob", *TARGETS}}

    @property
    def of_rows(self) -> dict[str, Any]:
        """The options of a request to process the rows of a file."""
        return {"format": self.format, "compression": self.compression, "reading": self.reading}

    @property
    def target(self) -> str:
        """The resource, table or recipe that a file is for, as the ledger has it."""
        return self.resource or (f"table {self.table}" if self.table else f"recipe {self.recipe}")


@dataclass(frozen=True)
class DropSource:
    name: str
    where: str
    rules: tuple[Rule, ...]
    after: After = After.LEAVE
    done_folder: str = "done"
    """The folder, in the same storage, where files go after success if `after` is `move`."""
    failed_folder: str | None = None
    """The folder where files go whose import failed. If there is none, they stay where they are."""
    marker: str | None = None
    """The ending of marker files: a file is complete once a file of its name with this ending is there. If there is no
    such ending, a file is complete once it stops changing."""
    settle_seconds: float = 2.0
    stalled_seconds: float = 3_600.0
    max_files: int = 500
    max_bytes: int = 1_000_000_000

    @property
    def scheme(self) -> str:
        return addresses.parse(self.where, FIELD).scheme

    @property
    def folder(self) -> str | None:
        """The folder of this machine that is the source; None if the source lies elsewhere."""
        address = addresses.parse(self.where, FIELD)
        return address.path if address.scheme == "file" else None

    def import_address(self, url: str) -> str:
        """Return the address by which an import reads the file at `url`. It has the password of the source's own
        address, if that names one."""
        address = addresses.parse(self.where, FIELD)
        if not address.user or address.password is None:
            return url
        head, _, rest = url.partition("@")
        return f"{head}:{quote(address.password, safe='')}@{rest}"

    def rule_for(self, path: str) -> Rule | None:
        return next((rule for rule in self.rules if Pattern(rule.glob).matches(path)), None)


def standard(inbox: Path, resources: Sequence[str]) -> DropSource:
    """Return the source that is used when there is no TOML file: one folder, whose files say by their names which
    resource they are for."""
    rules = tuple(Rule(f"{name}*", name) for name in resources)
    return DropSource("inbox", str(inbox), rules, After.MOVE, failed_folder="failed")


def are_named(path: Path) -> bool:
    """Whether somebody has named sources, so that the standard one does not count. A file that is missing is a mistake
    if a setting names it."""
    return path.exists() or path.absolute() != places.project() / places.DROPS


def load(path: Path, resources: Sequence[str], inbox: Path) -> list[DropSource]:
    """Read the sources from the TOML file. If nobody named any, return the standard source and make its folder."""
    if not are_named(path):
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
        # A folder that is not written as keys are would not be recognised in a listing, and its files would be taken
        # for dropped ones.
        if folder is not None and (fault := paths.fault(folder)):
            raise InvalidInput(FIELD, f"{place}: {name}: {folder!r} {fault}")
    return source


def rule_of(table: Mapping[str, Any], place: str, resources: Sequence[str]) -> Rule:
    reading = {name: value for name, value in table.items() if name in HELP}
    table = {name: value for name, value in table.items() if name not in HELP}
    check(table, Rule, f"{place}: files", {"reading"})
    if not table.get("glob"):
        raise InvalidInput(FIELD, f"{place}: files: glob is missing")
    if len([name for name in TARGETS if table.get(name)]) != 1:
        raise InvalidInput(FIELD, f"{place}: files: a rule names one of {', '.join(TARGETS)}")
    Pattern(table["glob"])
    if table.get("recipe"):
        check_recipe(table, place)
    else:
        check_options(table, place, resources)
    check_words(table, place)
    try:
        return Rule(**table, reading=Reading.of(reading))
    except InvalidInput as error:
        raise InvalidInput(FIELD, f"{place}: {error.field}: {error.message}") from None


def check_options(table: Mapping[str, Any], place: str, resources: Sequence[str]) -> None:
    """Check the options of a rule's imports."""
    if not table.get("table") and table["resource"] not in resources:
        raise InvalidInput(FIELD, f"{place}: {table['resource']!r} is not a resource: {', '.join(resources)}")
    if table.get("mode", "insert") not in ("insert", "upsert"):
        raise InvalidInput(FIELD, f"{place}: mode {table['mode']!r} is neither insert nor upsert")
    if "match_on" in table and table.get("mode", "insert") != "upsert":
        raise InvalidInput(FIELD, f"{place}: match_on: only an upsert matches records to rows")
    if not is_limit(table.get("on_error", "continue")):
        told = f"{table['on_error']!r} is none of continue, abort, a number (100), or a share (5%)"
        raise InvalidInput(FIELD, f"{place}: on_error {told}")


def check_recipe(table: Mapping[str, Any], place: str) -> None:
    """Check a rule for rows that are processed. What is said of imports alone is a mistake here."""
    for name in ("mode", "match_on", "on_error"):
        if name in table:
            raise InvalidInput(FIELD, f"{place}: files: {name} is said of imports, and {table['recipe']!r} is a recipe")


def check_words(table: Mapping[str, Any], place: str) -> None:
    allowed: dict[str, tuple[str, ...]] = {"format": tuple(FileFormat), "compression": tuple(Compression)}
    for option, known in allowed.items():
        if table.get(option, known[0]) not in set(known):
            raise InvalidInput(FIELD, f"{place}: {option} {table[option]!r} is none of {', '.join(known)}")


def is_limit(on_error: str) -> bool:
    found = ON_ERROR.fullmatch(on_error)
    return found is not None and (found[1] is None or int(found[1]) <= 100)


def check_address(where: str, place: str) -> None:
    """Refuse an address at which every look would fail."""
    address = addresses.parse(where, FIELD)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(FIELD, f"{place}: {addresses.redacted(where)} is a web address: it has no files to look for")
    folder = address.path.strip("/") if address.scheme != "s3" else address.path.rstrip("/")
    if address.scheme != "file" and folder and (fault := paths.fault(folder)):
        raise InvalidInput(FIELD, f"{place}: where: {folder!r} {fault}")


def are_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def check(table: Mapping[str, Any], target: type, place: str, internal: set[str]) -> None:
    """Check the names in a table, and that each has a value of the right kind."""
    known = {field.name: field.type for field in fields(target) if field.name not in internal}
    for name, value in table.items():
        if name not in known:
            raise InvalidInput(FIELD, f"{place}: {name!r} is not known; the known ones are {', '.join(sorted(known))}")
        allowed, said = VALUES.get(known[name], (str, "a text"))
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise InvalidInput(FIELD, f"{place}: {name}: {value!r} is not {said}")


def choice(options: Callable[[str], After], value: str, place: str) -> After:
    try:
        return options(value)
    except ValueError:
        raise InvalidInput(FIELD, f"{place}: {value!r} is none of {', '.join(After)}") from None
