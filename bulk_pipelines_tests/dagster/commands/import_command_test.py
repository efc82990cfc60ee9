"""`bulk import` as a person uses it: a process of its own, on an embedded database, its run in Dagster."""

from pathlib import Path

import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.person import Person

SAMPLES = CHECKOUT / "docs" / "samples"


@pytest.fixture
def person(tmp_path: Path, database_url: str) -> Person:
    return Person(tmp_path, database_url)


@pytest.mark.long
def test_from_the_file_to_the_rejects_and_back(person: Person, tmp_path: Path) -> None:
    users = str(SAMPLES / "users.csv")
    said = person.says("import", users, "--resource", "users", "--idempotency-key", "once", code=3)
    assert "6 read, 3 loaded, 3 rejected" in said
    key = said.split()[1]
    again = person.says("import", users, "--resource", "users", "--idempotency-key", "once", code=3)
    assert f"import {key}, submitted before" in again

    page = person.says("import", "errors", key, "--limit", "2")
    assert "line 5: invalid_email_format" in page
    assert "3 in all" in page
    target = tmp_path / "rejects.ndjson"
    person.says("import", "errors", key, "--format", "ndjson", "--to", str(target))
    assert len(target.read_text().splitlines()) == 3

    replayed = person.says("import", "replay", key, code=1)
    assert "nothing could be loaded" in replayed, "nobody mended anything"
    assert "3 rows taken back" in person.says("import", "undo", key, "--yes")
    assert "0 rows" in person.says("import", "undo", key, "--yes")


def test_mistakes_are_one_line(person: Person) -> None:
    (person.folder / "strange.csv").write_text("mail,name,role\na@x.org,A,reader\n")
    (person.folder / "good.csv").write_text("email,name,role\na@x.org,A,reader\n")
    for arguments, message in [
        (["good.csv", "--resource", "shoes"], "resource: there is no resource 'shoes'"),
        (["good.csv", "--resource", "users", "--mode", "merge"], "mode: 'merge' is neither insert nor upsert"),
        (["good.csv", "--resource", "users", "--on-error", "often"], "on_error: 'often' is none of"),
        (["gopher://x/y", "--resource", "users"], "gopher:// is not an address we know"),
        (["errors", "J19990101_000001"], "no job has the key"),
        (["nothing.csv", "--resource", "users"], "nothing.csv: No such file or directory"),
        (["strange.csv", "--resource", "users"], "the columns of the file do not fit users"),
    ]:
        said = person.says("import", *arguments, code=1)
        assert message in said
        assert "Traceback" not in said
    assert person.says("jobs") == "no jobs\n", "nothing is left behind"
