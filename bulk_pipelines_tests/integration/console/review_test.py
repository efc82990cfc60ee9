"""People review what a recipe is not sure of: they decide row by row, see it, and think again."""

import re
from html import unescape

import pytest

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.browser import Visitor, words
from bulk_pipelines_tests.scenes.furnished import Furnished
from bulk_pipelines_tests.servers.provider_server import ProviderServer

HOSTILE = ("'\"><script>alert(1)</script>", "<img src=x onerror=alert(2)>\u202e", "{{ 7 * 7 }}</table></form>")


@pytest.fixture(scope="module")
def uncertain(made: Furnished) -> str:
    """A job of rows of which the recipe is not sure, two of them equal. The candidates come from a hostile service."""
    found_items = [
        {"id": text, "name": f"named {text}", "score": 0.7 - index / 100, "price": text}
        for index, text in enumerate(HOSTILE)
    ]
    with ProviderServer(lambda call: {"items": [] if "vase" in call.params["q"] else found_items}) as shop:
        made.scene.shop(shop.url)
        source = made.scene.file(
            f'title,brand\nlamp {HOSTILE[1]},"=1+1"\ndesk,Acme\nDESK ,acme\nvase,Acme\n', "uncertain.csv"
        )
        return made.scene.done(source=source).job_key


def candidates(page: str) -> list[str]:
    """Return the entries that a page offers to accept."""
    return [unescape(each) for each in re.findall(r'name="entry" value="([^"]*)"', page)]


def test_rows_that_are_not_sure_are_decided_and_each_decision_is_undone_by_another(api: Api, uncertain: str) -> None:
    root = Visitor(api, "root", Scope.ADMIN)
    place = f"/console/jobs/{uncertain}/review"
    first = root.open(place)
    assert candidates(first.text) == list(HOSTILE)
    seen = re.sub(r'<input type="hidden"[^>]*>', "", first.text)
    assert not re.search(r"<script(?! src=)|<img src=x|\u202e", seen)
    assert "⟨U+202E⟩" in seen
    assert first.text.count("</table>") == 1
    assert "3 rows of this job are ambiguous" in words(first)
    assert "Row 000000002" in words(root.open(unescape(re.findall(r'href="([^"]+)" rel="next"', first.text)[0])))

    def decide(row: int, verdict: str, entry: str | None = None, **fields: str) -> str:
        asked = {"row": f"{row:09}", "verdict": verdict, "outcome": "ambiguous", "after": "", **fields}
        answer = root.send(place, asked | ({"entry": entry} if entry is not None else {}))
        assert answer.status_code == 303, answer.text
        return words(root.open(answer.headers["location"]))

    def outcome_of(row: int) -> str:
        page = root.open(f"{place}?row={row:09}").text
        chip = re.search(r'<h2 id="row">[^<]*</h2><span class="chip \w+">([^<]*)<', page)
        assert chip, page
        return chip[1]

    told = decide(1, "accept", HOSTILE[0])
    assert "is accepted for row 000000001. Its outcome is: matched." in told
    assert "Row 000000002" in told, "the next row takes its place"
    assert "Back to the row that was just decided" in told
    assert "accepted" in words(root.open(f"{place}?row=000000001"))
    assert "Row 000000001" in words(root.open(f"{place}?outcome=matched"))
    for verdict, entry, outcome in (
        ("none", None, "no match"),
        ("accept", HOSTILE[1], "matched"),
        ("reject", HOSTILE[1], "ambiguous"),
        ("open", None, "ambiguous"),
    ):
        assert f"Its outcome is: {outcome}." in decide(1, verdict, entry, alone="yes")
        assert outcome_of(1) == outcome
    assert "That had been so before" in decide(1, "open", alone="yes")
    noted = words(root.open(f"/console/jobs/{uncertain}/audit"))
    assert noted.count("decide") == 5, "one for each decision that changed something"

    decide(2, "none")
    answer = root.send(f"{place}/apply", page=place)
    assert "1 row changed." in words(root.open(answer.headers["location"]))
    assert [outcome_of(row) for row in (1, 2, 3)] == ["ambiguous", "no match", "no match"]
    proposal = words(root.open(f"{place}/thresholds?precision=0.9"))
    assert "1 decision about rows of this recipe tells" in proposal
    assert "Nothing is proposed" in proposal
    assert root.open(f"{place}/thresholds?precision=2").status_code == 400


def test_what_cannot_be_decided_is_said_and_who_only_looks_has_no_buttons(api: Api, uncertain: str) -> None:
    place = f"/console/jobs/{uncertain}/review"
    root, looker = Visitor(api, "root", Scope.ADMIN), Visitor(api, "me", Scope.READ)
    for status, fields in (
        (400, {"row": "000000001", "verdict": "accept"}),
        (400, {"row": "000000001", "verdict": "accept", "entry": "no candidate"}),
        (400, {"row": "000000001", "verdict": "maybe"}),
        (400, {"row": "a\0b", "verdict": "none"}),
        (404, {"row": "000000099", "verdict": "none"}),
    ):
        assert root.send(place, fields).status_code == status, fields
    assert root.open(f"{place}?row=000000099").status_code == 404
    assert "No candidate was found." in words(root.open(f"{place}?row=000000004"))
    for query in ("outcome=failed", "after=a%00b", "row=a%00b"):
        assert root.open(f"{place}?{query}").status_code == 400
    page = looker.open(place)
    assert page.status_code == 200
    assert "Score" in words(page)
    assert 'name="verdict"' not in page.text
    assert "/review/apply" not in page.text
    for address in (place, f"{place}/apply"):
        sent = {"row": "000000001", "verdict": "none"}
        assert looker.send(address, sent, page="/console/jobs").status_code == 403


LAMPS = """
[recipe.lamps]
type = "match"
needs = ["company"]
row = {{ countries = ["country"] }}
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [{{ header = "Id", evidence = "id" }}, {{ header = "City", answer = "city" }}]

[recipe.lamps.reference]
file = "{file}"
id = "id"
names = ["name"]
countries = ["country"]
"""


def test_an_entry_that_is_no_candidate_is_accepted_by_its_id(api: Api, made: Furnished) -> None:
    scene = made.scene
    known = "id,name,country,city\n2,Deutsche Lampen GmbH,de,Jena\n3,Deutsche Lampen AG,at,Wien\n4,Nordic Oy,fi,Turku\n"
    scene.declare(LAMPS.format(file=scene.file(known, "lamps.csv")))
    key = scene.done("lamps", source=scene.file("company,country\nDeutsche Lampen,\n", "asked.csv")).job_key
    root, place = Visitor(api, "root", Scope.ADMIN), f"/console/jobs/{key}/review"
    page = root.open(place)
    assert sorted(candidates(page.text)) == ["2", "3"]
    assert "of the score" in words(page)
    assert "Wien" in words(page)
    answer = root.send(place, {"row": "000000001", "verdict": "accept", "other": " 4 ", "alone": "yes"})
    told = words(root.open(answer.headers["location"]))
    assert "4 is accepted for row 000000001. Its outcome is: matched." in told
    assert "matched with 4" in told
    assert root.send(place, {"row": "000000001", "verdict": "accept", "other": "5"}).status_code == 400
