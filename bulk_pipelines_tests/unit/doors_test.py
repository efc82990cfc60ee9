"""One request, many doors: whatever can be said of an import on the command line can be said at every other door, or it
stands here why not."""

import json
from typing import Any

import click
import pytest

from bulk_pipelines.api.files.reading import reading_of
from bulk_pipelines.api.imports import requests
from bulk_pipelines.api.items import requests as rows
from bulk_pipelines.drops import sources
from bulk_pipelines.formats.flags import flags_of, with_reading
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports import commands
from bulk_pipelines.imports.definitions import ImportConfig
from bulk_pipelines.processing import commands as processing
from bulk_pipelines.processing.definitions import ProcessingConfig
from bulk_pipelines.processing.recipes import commands as recipes
from bulk_pipelines.remote.commands import IMPORTS
from bulk_pipelines.remote.job_commands import process as over_http
from bulk_pipelines.resources.declaration import Resource

VALUES: dict[str, Any] = {
    "delimiter": ";",
    "quote": "'",
    "escape": "\\",
    "encoding": "cp1252",
    "skip_lines": 3,
    "no_header": True,
    "fields": ["id", "name"],
    "nulls": ["NULL", "-"],
    "decimal": ",",
    "dates": {"born": "%d.%m.%Y"},
    "sheet": "Users",
    "member": "*.csv",
    "map": {"email": "E-Mail"},
    "ignore": ["note"],
    "ignore_extra": True,
    "constants": {"role": "reader"},
    "expressions": {"full_name": "first || ' ' || last"},
}
"""Every option that tells how a file is read, with a value."""
NEEDED = {"fields": {"no_header": True}}
"""Options that go only with another one."""

OPTIONS = ("resource", "table", "mode", "match_on", "format", "compression", "on_error", "validate_only")
"""What else can be said of an import, but for how its job is named and when it is launched."""
LEFT_OUT = {
    ("drops", "validate_only"): "a dropped file is put away when its import is over, so it has to be loaded",
}


@pytest.mark.parametrize("name", HELP)
def test_every_file_option_is_had_at_every_door(name: str) -> None:
    given = NEEDED.get(name, {}) | {name: VALUES[name]}
    wanted = Reading.of(given)
    assert getattr(wanted, name) != getattr(Reading(), name), "the value says something"
    address = requests.Address(resource="users", url="https://x", **given)
    readings = {
        "command line": by_command(commands.group.commands["file"], given),
        "drops": sources.rule_of({"glob": "*", "table": "shop.orders", **given}, "here", ()).reading,
        "launchpad": by_launchpad(given),
        "http, as JSON": address.options(None, undeclared, admin=True).reading,
        "http, in a form": requests.options_of(as_texts(given), undeclared, admin=True).reading,
    }
    assert readings == dict.fromkeys(readings, wanted)
    assert IMPORTS["file"].params == commands.group.commands["file"].params


@pytest.mark.parametrize("name", HELP)
def test_every_file_option_is_had_at_every_door_to_recipes(name: str) -> None:
    given = NEEDED.get(name, {}) | {name: VALUES[name]}
    wanted = Reading.of(given)
    address = rows.Address(recipe="products", url="https://x", **given)
    config = ProcessingConfig(recipe="products", source="file.csv", **given)
    readings = {
        "command line": by_command(processing.process, given, "--recipe", "products"),
        "trial": by_command(recipes.try_out, given, "products"),
        "drops": Reading(**vars(sources.rule_of({"glob": "*", "recipe": "products", **given}, "here", ()).reading)),
        "launchpad": config.reading,
        "http, as JSON": reading_of(address.model_dump(), admin=True),
        "http, in a form": reading_of(as_texts(given), admin=True),
    }
    assert readings == dict.fromkeys(readings, wanted)
    assert name in rows.FIELDS, "in the form"
    assert over_http.params == processing.process.params, "and over HTTP by the command line"


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_had_at_every_door(name: str) -> None:
    doors = {
        "command line": {each.name for each in commands.group.commands["file"].params},
        "launchpad": set(ImportConfig.model_fields),
        "drops": {each for each in sources.Rule.__dataclass_fields__ if each != "glob"},
        "http": set(requests.Address.model_fields),
    }
    assert {door for door, has in doors.items() if name not in has} == {
        door for door, option in LEFT_OUT if option == name
    }
    assert name in requests.FIELDS, "in the form"


def test_the_table_names_every_option() -> None:
    assert list(VALUES) == list(HELP) == list(Reading.__dataclass_fields__)


def undeclared(table: str) -> Resource:
    raise AssertionError(f"nobody named {table}")


def by_command(command: click.Command, given: dict[str, Any], *others: str) -> Reading:
    """Return what a command line reads that is written as previews write it."""
    words = [*others, "file.csv", *flags_of(Reading.of(given))]
    return with_reading(command.make_context("import", words).params)["reading"]  # type: ignore[no-any-return]


def by_launchpad(given: dict[str, Any]) -> Reading:
    return ImportConfig(source="file.csv", **given).reading


def as_texts(given: dict[str, Any]) -> dict[str, str]:
    found = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    return {"resource": "users"} | found
