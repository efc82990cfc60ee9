"""A declaration that is made anew keeps what people have written, removed and put in order, and gets what the catalogue
says by now."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines import resources, settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.resources import adoption, comparing
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines_tests.scenes.shop import Shop

TABLE = """
CREATE TABLE shop.wares (
    id integer PRIMARY KEY,
    code varchar(20) NOT NULL UNIQUE,
    status shop.order_status,
    maker integer REFERENCES shop.customers,
    seller integer,
    secret text,
    note text,
    UNIQUE (maker, note)
);
COMMENT ON COLUMN shop.wares.note IS 'what is said of it';
"""
EDITED = '''\
# Wares, as the partner sends them.
name = "wares"
table = "wares"
table_schema = "shop"
says = "What we sell."   # for the docs

# The partner's number, never ours.
[[columns]]
name = "id"
kind = "integer"
type = "integer"
required = true
in_files = "Ware No"    # as in the contract
code = "no_such_ware"

# Texts.

# Capitals, by contract.
[[columns]]
name = "code"
kind = "text"
type = "character varying(20)"
required = true
pattern = "[A-Z]+"
max_length = 12
refuse_blank = true
[[columns]]
name = "note"
kind = "text"
type = "text"
max_words = 50
searchable = true
says = """
Several lines
of it"""

[[columns]]
name = "status"
kind = "text"
type = "shop.order_status"
one_of = [
    "paid",
    "new",  # none goes missing here
]
required = true

[[columns]]
name = "maker"
kind = "integer"
type = "integer"

[[columns]]
name = "seller"
kind = "integer"
type = "integer"

[[keys]]
columns = ["code"]   # rows are told by their code
constraint = "wares_code_key"
code = "twice"

[[keys]]
columns = ["id"]
constraint = "wares_pkey"

# The partner's customers are ours.
[[references]]
columns = ["seller"]
table = "customers"
table_schema = "shop"
to = ["id"]
constraint = "ours"
code = "no_such_seller"

[[references]]
columns = ["maker"]
table = "customers"
table_schema = "shop"
to = ["id"]
constraint = "wares_maker_fkey"
code = "no_such_maker"

[[rules]]
empty = "note"
when = "status"
has = "new"
code = "new_with_note"

# That is all.
'''


@dataclass(frozen=True)
class Adopter:
    shop: Shop
    folder: Path

    def adopt(
        self, table: str = "shop.wares", name: str | None = None, *, again: bool = False
    ) -> tuple[Resource, Path]:
        with transaction(self.shop.engine) as connection:
            return adoption.adopt(connection, settings.current(), table, name, provenance=False, again=again)

    def again(self, table: str = "shop.wares", name: str | None = None) -> str:
        """Adopt the table again, and return the text of its file. What is written is what is read."""
        resource, path = self.adopt(table, name, again=True)
        text = path.read_text()
        assert resource == resources.find(resource.name)
        self.adopt(table, name, again=True)
        assert path.read_text() == text, "the second time nothing changes"
        assert list(self.folder.iterdir()) == [path]
        return text

    def edited(self) -> Path:
        """Adopt the table, and let somebody edit the file."""
        _, path = self.adopt()
        told = path.read_text()
        path.write_text(EDITED + "\n" + told[told.index("[catalogue]") :])
        return path


@pytest.fixture
def adopter(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Adopter:
    monkeypatch.setenv("BULK_RESOURCES", str(tmp_path / "resources"))
    shop.do(TABLE)
    return Adopter(shop, tmp_path / "resources")


def column(text: str, name: str) -> dict[str, Any]:
    return next(each for each in tomllib.loads(text)["columns"] if each["name"] == name)


def names(text: str) -> list[str]:
    return [each["name"] for each in tomllib.loads(text)["columns"]]


def keys(text: str) -> list[list[str]]:
    return [each["columns"] for each in tomllib.loads(text)["keys"]]


def test_nothing_changes_when_the_table_is_as_it_was(adopter: Adopter) -> None:
    _, path = adopter.adopt()
    written = path.read_text()
    assert adopter.again() == written
    path.unlink()
    path = adopter.edited()
    edited = path.read_text()
    stamp = path.stat().st_mtime_ns
    assert adopter.again() == edited
    assert path.stat().st_mtime_ns == stamp


def test_what_is_new_in_the_table_comes_and_the_rest_stays(adopter: Adopter) -> None:
    path = adopter.edited()
    edited = path.read_text()
    adopter.shop.do(
        "ALTER TABLE shop.wares ADD colour varchar(9) NOT NULL UNIQUE,"
        " ADD twice integer GENERATED ALWAYS AS (id) STORED"
    )
    text = adopter.again()
    new = [line for line in text.splitlines() if line not in edited.splitlines()]
    assert text.startswith(EDITED[: EDITED.index("[[keys]]")])
    assert all(line in text for line in EDITED.splitlines())
    assert [line for line in new if "colour" not in line] == ['type = "character varying(9)"', "max_length = 9"]
    assert names(text) == ["id", "code", "note", "status", "maker", "seller", "colour"]
    assert keys(text) == [["code"], ["id"], ["colour"]]


CHANGES: dict[str, tuple[str, Callable[[str], Any], Any]] = {
    "a longer text": ("ALTER code TYPE varchar(40)", lambda text: column(text, "code")["max_length"], 12),
    "a shorter text": ("ALTER code TYPE varchar(5)", lambda text: column(text, "code")["max_length"], 5),
    "a text without end": ("ALTER code TYPE text", lambda text: column(text, "code")["max_length"], 12),
    "no value is needed": ("ALTER code DROP NOT NULL", lambda text: column(text, "code").get("required"), None),
    "one is needed": ("ALTER note SET NOT NULL", lambda text: column(text, "note").get("required"), True),
    "somebody's own need": ("ALTER code TYPE varchar(40)", lambda text: column(text, "status")["required"], True),
    "a default": ("ALTER note SET DEFAULT ''", lambda text: column(text, "note")["has_default"], True),
    "another type": ("ALTER id TYPE bigint", lambda text: column(text, "id")["type"], "bigint"),
    "names in files stay": ("ALTER id TYPE bigint", lambda text: column(text, "id")["in_files"], "Ware No"),
    "the codes stay": ("ALTER id TYPE bigint", lambda text: column(text, "id")["code"], "no_such_ware"),
    "the pattern stays": ("ALTER code TYPE text", lambda text: column(text, "code")["pattern"], "[A-Z]+"),
    "no text any more": (
        "ALTER note TYPE integer USING 1",
        lambda text: column(text, "note"),
        {"name": "note", "kind": "integer", "type": "integer", "says": "Several lines\nof it"},
    ),
    "a column goes": ("DROP maker", names, ["id", "code", "note", "status", "seller"]),
    "its reference goes": (
        "DROP maker",
        lambda text: [each["columns"] for each in tomllib.loads(text)["references"]],
        [["seller"]],
    ),
    "a rule goes with its column": ("DROP note", lambda text: tomllib.loads(text).get("rules"), None),
    "a key goes": ("DROP CONSTRAINT wares_pkey", keys, [["code"]]),
    "an index has another name": (
        "RENAME CONSTRAINT wares_code_key TO codes",
        lambda text: tomllib.loads(text)["keys"][0],
        {"columns": ["code"], "constraint": "codes", "code": "twice"},
    ),
    "a reference goes": (
        "DROP CONSTRAINT wares_maker_fkey",
        lambda text: [each["columns"] for each in tomllib.loads(text)["references"]],
        [["seller"]],
    ),
    "a reference to another table": (
        'DROP CONSTRAINT wares_maker_fkey, ADD FOREIGN KEY (maker) REFERENCES shop."Order Log"',
        lambda text: [(each["table"], each["code"]) for each in tomllib.loads(text)["references"]],
        [("Order Log", "no_such_maker"), ("customers", "no_such_seller")],
    ),
    "a removed key stays removed": ("ALTER maker SET NOT NULL", keys, [["code"], ["id"]]),
    "the table says more of it": (
        "ADD import_job bigint, ADD import_line bigint, ADD import_revised boolean NOT NULL DEFAULT false",
        lambda text: (tomllib.loads(text)["provenance"], len(names(text))),
        (True, 6),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_table(adopter: Adopter, change: str) -> None:
    path = adopter.edited()
    said = path.read_text()
    statement, found, expected = CHANGES[change]
    adopter.shop.do(f"ALTER TABLE shop.wares {statement}")
    text = adopter.again()
    assert found(text) == expected
    lost = [line for line in said.splitlines() if "#" in line and line not in text.splitlines()]
    gone = ["# none goes missing here"] if "status" not in text else []
    assert lost == gone
    with transaction(adopter.shop.engine) as connection:
        different = comparing.differences(connection, resources.find("wares"))
    assert [each for each in different if each.grave] == []


def test_the_comments_of_a_column_that_goes_go_with_it(adopter: Adopter) -> None:
    adopter.edited()
    adopter.shop.do("ALTER TABLE shop.wares DROP code")
    text = adopter.again()
    assert '# Texts.\n\n[[columns]]\nname = "note"' in text
    assert "# Capitals" not in text
    assert keys(text) == [["id"]]


def test_labels_of_an_enum(adopter: Adopter) -> None:
    adopter.edited()
    adopter.shop.do("ALTER TYPE shop.order_status ADD VALUE 'sent'")
    assert column(adopter.again(), "status")["one_of"] == ["paid", "new", "sent"]
    adopter.shop.do("ALTER TYPE shop.order_status RENAME VALUE 'paid' TO 'settled'")
    assert column(adopter.again(), "status")["one_of"] == ["new", "sent", "settled"]
    adopter.shop.do("ALTER TABLE shop.wares ALTER status TYPE text")
    assert column(adopter.again(), "status")["one_of"] == ["new", "sent", "settled"], "somebody has narrowed it"


def test_labels_and_lengths_that_nobody_changed_are_those_of_the_table(adopter: Adopter) -> None:
    adopter.adopt()
    adopter.shop.do("ALTER TYPE shop.order_status ADD VALUE 'sent'; ALTER TABLE shop.wares ALTER code TYPE varchar(40)")
    text = adopter.again()
    assert column(text, "status")["one_of"] == ["new", "paid", "gone missing", "sent"]
    assert column(text, "code")["max_length"] == 40
    adopter.shop.do("ALTER TABLE shop.wares ALTER status TYPE text, ALTER code TYPE text")
    text = adopter.again()
    assert "one_of" not in column(text, "status")
    assert "max_length" not in column(text, "code")


def test_a_new_first_key_is_the_first(adopter: Adopter) -> None:
    """Nobody has put the keys into another order, so the one by which rows are told is the table's."""
    adopter.adopt()
    adopter.shop.do(
        "ALTER TABLE shop.wares DROP CONSTRAINT wares_pkey, ADD made uuid NOT NULL; "
        "ALTER TABLE shop.wares ADD PRIMARY KEY (made)"
    )
    assert keys(adopter.again()) == [["made"], ["code"], ["maker", "note"]]


def test_a_file_that_does_not_tell_what_the_catalogue_said(adopter: Adopter) -> None:
    """Files of older versions do not. Then nothing that is written goes, and what is missing comes."""
    _, path = adopter.adopt()
    path.write_text(EDITED)
    text = adopter.again()
    assert all(line in text for line in EDITED.splitlines())
    assert names(text) == ["id", "code", "note", "status", "maker", "seller", "secret"]
    assert column(text, "status")["one_of"] == ["paid", "new"]
    assert keys(text)[:2] == [["code"], ["id"]]
    assert text.count("no_such_seller") == 1
    assert text.index("# That is all.") < text.index("[catalogue]")


def test_forms_of_toml(adopter: Adopter) -> None:
    """Lists in one place, and ends of lines as another system has them."""
    _, path = adopter.adopt()
    given = tomllib.loads(EDITED)
    lines = [
        f"{{name = '{each['name']}', kind = '{each['kind']}', type = '{each['type']}'}}, # {each['name']}"
        for each in given["columns"]
    ]
    text = "\r\n".join(
        ['name = "wares"', "table = 'wares'", "table_schema = 'shop'", "columns = [", *lines, "]", "# end", ""]
    )
    path.write_text(text, newline="")
    adopter.shop.do("ALTER TABLE shop.wares DROP seller")
    text = adopter.again()
    assert path.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\n")
    assert "seller" not in text
    assert {"# code", "# end"} <= {line.split("}, ")[-1] for line in text.splitlines()}
    assert set(names(text)) == {"id", "code", "status", "maker", "secret", "note"}


def test_a_declaration_with_another_name_or_file_is_found_by_its_table(adopter: Adopter) -> None:
    _, path = adopter.adopt(name="goods")
    assert 'name = "goods"' in adopter.again()
    path = path.rename(path.with_name("theirs.toml"))
    with pytest.raises(Conflict, match=r"theirs\.toml is there already: edit it, or bring it up to date with --again"):
        adopter.adopt(name="goods")
    adopter.shop.do("ALTER TABLE shop.wares ADD colour text")
    assert "colour" in adopter.again()
    assert "colour" in adopter.again(name="goods")


def test_a_name_that_is_taken_writes_nothing(adopter: Adopter) -> None:
    path = adopter.edited()
    before = path.read_text()
    adopter.shop.do('ALTER TABLE shop.wares ADD "Ware No" integer')
    with pytest.raises(InvalidInput, match="two columns have one name in files"):
        adopter.adopt(again=True)
    assert path.read_text() == before
    assert list(adopter.folder.iterdir()) == [path]
