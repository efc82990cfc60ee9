"""One request, many doors: whatever can be said of an import on the command line can be said at every other door, or it
stands here why not."""

import json
import re
from typing import Any

import click
import pytest

from bulk_pipelines.api.files.reading import reading_of
from bulk_pipelines.api.imports import requests
from bulk_pipelines.api.items import requests as rows
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving.tracing import Trace
from bulk_pipelines.console import file_options, frame
from bulk_pipelines.console.access import Form
from bulk_pipelines.drops import sources
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.formats.flags import flags_of, with_reading
from bulk_pipelines.formats.options import HELP, SEVERAL
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
    ("console, files", "table"): "who may work with a table is decided once, where it is adopted",
    ("console, an address", "table"): "the same",
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
        "console, an address": requests.Address(resource="users", url="https://x", **by_form(wanted))
        .options(None, undeclared, admin=True)
        .reading,
        "console, files": requests.options_of(by_page(wanted), undeclared, admin=True).reading,
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
        "console, an address": reading_of(
            rows.Address(recipe="x", url="x", **by_form(wanted)).model_dump(), admin=True
        ),
        "console, files": reading_of(by_page(wanted), admin=True),
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
        "console, files": asked_by("new_import.html")[0],
        "console, an address": asked_by("new_import.html")[1],
    }
    assert {door for door, has in doors.items() if name not in has} == {
        door for door, option in LEFT_OUT if option == name
    }
    assert name in requests.FIELDS, "in the form"


@pytest.mark.parametrize("page", ["new_import.html", "new_process.html"])
def test_both_forms_of_a_page_ask_for_every_file_option(page: str) -> None:
    for asked in asked_by(page):
        assert {"format", "compression", *HELP} <= asked
    for asked in asked_by(page, admin=False):
        assert {*HELP} - asked == {"expressions"}, "which only an administrator may give"


def test_the_table_names_every_option() -> None:
    assert list(VALUES) == list(HELP) == list(Reading.__dataclass_fields__)


def undeclared(table: str) -> Resource:
    raise AssertionError(f"nobody named {table}")


def by_command(command: click.Command, given: dict[str, Any], *others: str) -> Reading:
    """Return what a command line reads that is written as previews write it."""
    words = [*others, "file.csv", *flags_of(Reading.of(given))]
    return with_reading(command.make_context("import", words).params)["reading"]  # type: ignore[no-any-return]


def by_form(reading: Reading) -> dict[str, Any]:
    """Return what a form of the console makes of its fields, which have this."""
    return file_options.told_in(
        file_options.given_in(Form({name: [text] for name, text in in_fields(reading).items()}))
    )


def by_page(reading: Reading) -> dict[str, str]:
    """Return what the script of a page makes of the same fields."""
    found = in_fields(reading).items()
    return {"resource": "users"} | {
        name: file_options.as_list(text) if name in SEVERAL else text for name, text in found
    }


def in_fields(reading: Reading) -> dict[str, str]:
    return {name: file_options.in_field(name, value) for name, value in reading.as_params().items()}


def asked_by(page: str, *, admin: bool = True) -> list[set[str]]:
    """Return the names of the fields that the forms of a page of the console have."""
    caller = Caller(Actor("ada", "ui", admin=admin), Scope.ADMIN if admin else Scope.WRITE, Trace("r", "t"))
    around = {"request_path": "/", "caller": caller, "may_write": True, "is_open": False, "pending_shown": True}
    asked: dict[str, Any] = {
        "resources": [],
        "recipes": [{"name": "x", "says": ""}],
        "chosen": "",
        "wrong": None,
        "given": {},
    }
    html = (
        frame.templates()
        .get_template(page)
        .render(said=None, token="", admin=admin, **around, **asked, **file_options.of_page(caller, {}))
    )
    forms = [
        each for each in re.findall(r"<form\b.*?</form>", html, re.DOTALL) if "url" in each or "data-upload" in each
    ]
    return [set(re.findall(r'<(?:input|select|textarea)[^>]* name="(\w+)"', each)) for each in forms]


def by_launchpad(given: dict[str, Any]) -> Reading:
    return ImportConfig(source="file.csv", **given).reading


def as_texts(given: dict[str, Any]) -> dict[str, str]:
    found = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    return {"resource": "users"} | found
