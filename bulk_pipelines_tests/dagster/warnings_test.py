"""What libraries warn programmers of never reaches people: every command is given as in its first example, with all of
Python's warnings on."""

import shlex
from pathlib import Path

import pytest

from bulk_pipelines import examples
from bulk_pipelines_tests.scenes.person import Person

pytestmark = pytest.mark.long

SERVE = {"bulk up", "bulk api"}
"""Commands that serve until they are stopped."""

GIVEN = {
    "users.csv": "email,name,role\nann@example.org,Ann,reader\n",
    "request.json": '{"inputs": [{"indexKey": "A", "effectiveDate": 20240101, "asofindicator": "CLS"}]}',
    "products.csv": "title,brand\nLamp,Acme\n",
    "shop.toml": "",
}


def test_no_warning_of_a_library_is_seen(tmp_path: Path, database_url: str) -> None:
    person = Person(tmp_path, database_url)
    person.environment |= {"PYTHONWARNINGS": "default", "BULK_ALLOW_PRIVATE_HTTP": "true"}
    for name, text in GIVEN.items():
        (person.folder / name).write_text(text)
    given = set()
    for line in examples.lines():
        words = shlex.split(line)[1:]
        path = " ".join(word for word in words[:2] if word.isalpha())
        if line in SERVE or path in given:
            continue
        given.add(path)
        process = person.start(*words)
        _, errors = process.communicate(timeout=120)
        assert process.returncode in {0, 1, 3}, f"{line}: {errors}"
        lines = errors.splitlines()
        assert all(each.startswith("Error: ") for each in lines if not is_told(each)), f"{line}: {errors}"
    assert len(given) > 40


def is_told(line: str) -> bool:
    """Tell whether a command says this besides its answer."""
    return line.startswith(("subscription ", "key ")) or "rows added to index_data" in line
