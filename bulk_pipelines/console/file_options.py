"""What can be told of a file, as forms have it: those that send files, and those that name an address."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.api.items.requests import FIELDS
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console.access import Form
from bulk_pipelines.formats.flags import texts_of
from bulk_pipelines.formats.options import FLAGS, HELP, SEVERAL
from bulk_pipelines.formats.reading import FileFormat, Reading
from bulk_pipelines.storage.compression import Compression

LABELS = {
    "decimal": "Decimal sign",
    "member": "Files of an archive",
    "nulls": "Spellings of no value",
    "dates": "Forms of dates",
    "map": "Columns and their fields",
    "ignore": "Fields that are left out",
    "constants": "Columns and their constants",
    "expressions": "Columns and their expressions",
}
"""What options are called in forms, if not by their names."""
CHOICES = {
    "format": ("", *FileFormat),
    "compression": ("", *Compression),
    "decimal": ("", ","),
}
PAIRS = ("dates", "map", "constants", "expressions")
TEXTS = ("delimiter", "quote", "escape", "encoding", "decimal", "sheet", "member")


@dataclass(frozen=True)
class FileOption:
    name: str
    label: str
    control: str
    says: str
    choices: tuple[str, ...]
    text: str


def offered(given: Mapping[str, str], *, admin: bool) -> list[FileOption]:
    """Return what a form asks, filled in with what was given. Expressions of SQL are for administrators."""
    names = [name for name in ("format", "compression", *HELP) if admin or name != "expressions"]
    return [
        FileOption(
            name,
            LABELS.get(name, name.replace("_", " ").capitalize()),
            control_of(name),
            FIELDS[name].replace("; may be repeated", "") + (" One in a line." if name in SEVERAL else ""),
            CHOICES.get(name, ()),
            given.get(name, ""),
        )
        for name in names
    ]


def of_page(caller: Caller, given: Mapping[str, str]) -> dict[str, list[FileOption]]:
    """Return what the two forms of a page ask: one that sends files, and one of an address, in which something was
    given."""
    admin = caller.actor.admin
    return {"sent_options": offered({}, admin=admin), "fetched_options": offered(given, admin=admin)}


def control_of(name: str) -> str:
    if name in CHOICES:
        return "select"
    return "check" if name in FLAGS else "lines" if name in SEVERAL else "number" if name == "skip_lines" else "text"


def given_in(form: Form) -> dict[str, str]:
    """Return what a form says of the file, as its fields have it."""
    return {name: text for name in ("format", "compression", *HELP) if (text := form.one(name))}


def told_in(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the same as a request has it that names an address."""
    listed = {name: as_list(text) if name in SEVERAL else text for name, text in given.items()}
    read = Reading.of(listed).as_params()
    typed = {name: dict(value) if name in PAIRS else value for name, value in read.items()}
    as_given = ("format", "compression", *TEXTS)
    return typed | {name: given[name] for name in as_given if name in given}


def as_list(text: str) -> str:
    """Return the lines of a field as a list of JSON, unless they are JSON already."""
    if text.startswith(("[", "{")):
        try:
            json.loads(text)
        except ValueError:
            pass
        else:
            return text
    return json.dumps([line for line in text.splitlines() if line.strip()])


def in_field(name: str, value: Any) -> str:
    """Return the value of an option as a field has it."""
    if isinstance(value, bool):
        return "true" if value else ""
    texts = texts_of(name, value)
    lines = "\n".join(texts)
    if name in SEVERAL and json.loads(as_list(lines)) != texts:
        return json.dumps(value, ensure_ascii=False)
    return lines
