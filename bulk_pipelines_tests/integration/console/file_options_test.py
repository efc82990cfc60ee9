"""What can be told of a file is told by the forms that name an address, too. `doors_test` sees that none lacks."""

import re
from html import unescape

from bulk_pipelines.formats.reading import Reading
from bulk_pipelines_tests.scenes.api_imports import found
from bulk_pipelines_tests.scenes.browser import Visitor, words
from bulk_pipelines_tests.scenes.furnished import Furnished

TOLD = {
    "format": "csv",
    "compression": "gzip",
    "delimiter": "tab",
    "quote": "none",
    "skip_lines": "2",
    "no_header": "true",
    "fields": '["id", "Na, me", "x"]',
    "nulls": "n/a\r\n-",
    "map": 'email = x\r\n{"name": "Na, me"}',
    "ignore": '["a\\nb"]',
    "constants": "role=reader",
}
READ = Reading(
    delimiter="\t",
    quote="",
    skip_lines=2,
    no_header=True,
    fields=("id", "Na, me", "x"),
    nulls=("n/a", "-"),
    map=(("email", "x"), ("name", "Na, me")),
    ignore=("a\nb",),
    constants=(("role", "reader"),),
)
URL = "https://example.org/people.csv.gz"


def test_an_import_from_an_address_is_told_how_the_file_is_read(ada: Visitor, made: Furnished) -> None:
    asked = {"resource": "users", "url": URL, "validate_only": "true", "on_error": "5%", **TOLD}
    answer = ada.send("/console/new/import", asked)
    assert answer.status_code == 303, words(answer)
    params = found(made.engine, answer.headers["location"].rpartition("/")[2]).params
    assert Reading.from_params(params["reading"]) == READ
    assert (params["mode"], params["format"], params["compression"]) == ("validate", "csv", "gzip")


def test_what_was_asked_stays_in_a_form_that_is_refused(ada: Visitor) -> None:
    asked = {"resource": "articles", "url": URL, "mode": "upsert", "delimiter": "letters", "map": "title=<x>\r\nbody=y"}
    answer = ada.send("/console/new/import", asked)
    assert answer.status_code == 400
    assert "delimiter: 'letters' is not a character" in words(answer)
    form = answer.text[answer.text.index("Fetch from an address") :]
    assert re.search(r'name="delimiter"[^>]* value="letters"', form)
    selected = re.findall(r"<option[^>]* selected>([^<]*)", form)
    assert selected == ["articles", "upsert: also changes", *["as usual"] * 3]
    assert re.search(r'name="map"[^>]*>\s*title=<x>\s+body=y<', unescape(form))
    assert "<details open>" in form


def test_expressions_are_for_administrators(ada: Visitor) -> None:
    asked = {"resource": "users", "url": URL, "expressions": "name=version()"}
    assert ada.send("/console/new/import", asked).status_code == 400
    assert 'name="expressions"' not in ada.open("/console/new/import").text


def test_rows_from_an_address_are_told_how_the_file_is_read(ada: Visitor, made: Furnished) -> None:
    answer = ada.send("/console/new/process", {"recipe": "products", "url": URL, **TOLD})
    assert answer.status_code == 303, words(answer)
    params = found(made.engine, answer.headers["location"].rpartition("/")[2]).params
    assert Reading.from_params(params["reading"]) == READ
    refused = ada.send("/console/new/process", {"recipe": "products", "url": URL, "skip_lines": "some"})
    assert (refused.status_code, "skip_lines: 'some' is not a whole number" in words(refused)) == (400, True)
