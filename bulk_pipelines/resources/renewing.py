"""A declaration that is made anew: its file gets what the catalogue says now and did not say when the file was written.
Everything else that stands in the file stays as it is."""

import re
from bisect import bisect
from collections.abc import Callable, Hashable, Mapping
from itertools import pairwise
from typing import Any

import tomlkit
from tomlkit.items import AoT, Table, Whitespace

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources import written
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.resources.written_form import FILLED, WrittenCatalogue

Entry = Any
"""A table of the file, as tomlkit has it: it keeps comments, the order and the form of everything."""
LENGTH = re.compile(r"character(?: varying)?\((\d+)\)")
OF_THE_TYPE = ("kind", "type", "stored_as", "has_default", "takes_empty")
OF_TEXT = ("one_of", "pattern", "max_length", "max_words", "refuse_blank", "searchable")


def catalogue_of(fresh: Resource) -> WrittenCatalogue:
    """Return what the catalogue says of a table, as far as people may say otherwise in the declaration."""
    now = written.as_dict(fresh)
    return WrittenCatalogue(
        columns=fresh.column_names,
        required=tuple(column.name for column in fresh.columns if column.required),
        labels={each["name"]: tuple(each["one_of"]) for each in now["columns"] if "one_of" in each},
        keys=tuple(key.name for key in fresh.keys),
        references=tuple(map(said, now.get("references", ()))),
    )


def said(reference: Mapping[str, Any]) -> str:
    to = f"{reference['table_schema']}.{reference['table']} ({','.join(reference['to'])})"
    return f"{','.join(reference['columns'])} -> {to}"


def referrer(written: Mapping[str, Any]) -> Hashable:
    return str(written["table_schema"]), str(written["table"]), tuple(written["columns"]), tuple(written["to"])


def renewed(text: str, fresh: Resource) -> str:
    """Return the text of a declaration with what the catalogue says by now."""
    document: Any = tomlkit.parse(text)
    given = document.get("catalogue")
    before = None if given is None else WrittenCatalogue.model_validate(given.unwrap())
    now = written.as_dict(fresh)
    write_catalogue(document, catalogue_of(fresh))
    own_what_stands_above(document)
    put(document, "provenance", now.get("provenance"))
    columns(document, now["columns"], before)
    named = {entry["name"] for entry in document["columns"]}
    keys(document, now.get("keys", []), before, named)
    references(document, now.get("references", []), before, named)
    merge(document, "rules", [], identity=id, stays=lambda each: {each["empty"], each["when"]} <= named)
    merge(document, "referred_to_by", now.get("referred_to_by", []), identity=referrer)
    return tomlkit.dumps(document)


def own_what_stands_above(document: Any) -> None:
    """Let comments belong to the table that they stand above. The parser has them at the end of the one before, where a
    new value would come behind them, and where they would go with that one."""
    body = document.body
    waiting: list[tuple[list[Any], int]] = []

    def walk(items: list[Any]) -> None:
        for place, (key, value) in enumerate(items):
            if isinstance(value, AoT | Table):
                for table in value.body if isinstance(value, AoT) else [value]:
                    table.trivia.indent = "".join(at[where][1].as_string() for at, where in waiting)
                    for at, where in waiting:
                        at[where] = (None, Whitespace(""))
                    waiting.clear()
                    walk(table.value.body)
            elif key is None:
                waiting.append((items, place))
            else:
                waiting.clear()

    walk(body)


def merge(
    document: Any,
    name: str,
    fresh: list[dict[str, Any]],
    *,
    identity: Callable[[Any], Hashable],
    stays: Callable[[Entry], bool] = lambda _: False,
    comes: Callable[[dict[str, Any]], bool] = lambda _: True,
    update: Callable[[Entry, dict[str, Any]], None] = lambda _old, _new: None,
) -> None:
    """Bring a list of tables up to date. An entry that the catalogue does not know goes unless it `stays`; one that the
    file does not have `comes`, at its place if the file has the others in the catalogue's order, else at the end."""
    order = {identity(each): place for place, each in enumerate(fresh)}
    entries = document.get(name, [])
    for place in reversed(range(len(entries))):
        known = order.get(identity(entries[place]))
        if known is not None:
            update(entries[place], fresh[known])
        elif not stays(entries[place]):
            remove(document, entries, place)
    there = {identity(entry) for entry in entries}
    new = [each for each in fresh if identity(each) not in there and comes(each)]
    if not len(entries):
        document.pop(name, None)
        if new:
            document.add(name, tomlkit.item(new))
        return
    for each in new:
        places = [order.get(identity(entry), len(order)) for entry in entries]
        place = bisect(places, order[identity(each)]) if places == sorted(places) else len(places)
        entries.insert(place, each)
        if isinstance(entries, AoT):
            entries[place].trivia.indent = "\n"


def remove(document: Any, entries: Any, place: int) -> None:
    """Remove an entry with the comment above it. What stands further above, behind an empty line, is about something
    else, and stays."""
    if isinstance(entries, AoT):
        tables = [table for _, value in document.body for table in tables_of(value)]
        above, empty_line, _ = entries[place].trivia.indent.rpartition("\n\n")
        following = next((after for one, after in pairwise(tables) if one is entries[place]), None)
        if above.strip() and following is not None:
            following.trivia.indent = above + empty_line + following.trivia.indent.lstrip("\n")
    del entries[place]


def tables_of(value: Any) -> list[Any]:
    return list(value.body) if isinstance(value, AoT) else [value] if isinstance(value, Table) else []


def put(entry: Entry, name: str, value: Any) -> None:
    """Set a field if that changes it, or remove it if there is no value."""
    if value is None:
        entry.pop(name, None)
    elif entry.get(name) != value:
        entry[name] = value


def columns(document: Any, fresh: list[dict[str, Any]], before: WrittenCatalogue | None) -> None:
    def update(entry: Entry, column: dict[str, Any]) -> None:
        renew_column(entry, column, before)

    known = set(before.columns if before else ())
    merge(
        document,
        "columns",
        fresh,
        identity=lambda each: str(each["name"]),
        comes=lambda each: each["name"] not in known,
        update=update,
    )


def renew_column(entry: Entry, fresh: dict[str, Any], before: WrittenCatalogue | None) -> None:
    name, was = str(entry["name"]), entry.unwrap()
    for field in OF_THE_TYPE:
        put(entry, field, fresh.get(field))
    needed = before is not None and name in before.required
    if fresh.get("required", False) != needed:
        put(entry, "required", fresh.get("required"))
    if fresh["kind"] != ColumnKind.TEXT.value:
        for field in OF_TEXT:
            put(entry, field, None)
        if "fill" in was and FILLED[was["fill"]].value != fresh["kind"]:
            put(entry, "fill", None)
        return
    if typed(was) != typed(fresh):
        put(entry, "max_length", length(was, fresh))
    labels = list(before.labels.get(name, ())) if before else fresh.get("one_of", [])
    put(entry, "one_of", chosen(was.get("one_of"), labels, fresh.get("one_of", [])))


def typed(column: Mapping[str, Any]) -> str:
    return str(column.get("stored_as") or column["type"])


def length(was: Mapping[str, Any], fresh: Mapping[str, Any]) -> int | None:
    """Return how long texts of a column may be that has got another type: as long as the type says, unless somebody has
    asked for less."""
    of_type = LENGTH.fullmatch(typed(was))
    own, given = was.get("max_length"), fresh.get("max_length")
    if own is None or (of_type and own == int(of_type[1])):
        return given
    return int(own) if given is None else min(own, given)


def chosen(own: list[str] | None, before: list[str], now: list[str]) -> list[str] | None:
    """Return the values that a column may have, given those of the file, and the labels that its enum had and has."""
    if own is None and before:
        return None
    if not now:
        return None if set(own or ()) == set(before) else own
    new = [label for label in now if label not in (*before, *(own or ()))]
    return [label for label in own or () if label in now] + new or now


def keys(document: Any, fresh: list[dict[str, Any]], before: WrittenCatalogue | None, named: set[str]) -> None:
    def update(entry: Entry, key: dict[str, Any]) -> None:
        put(entry, "constraint", key["constraint"])

    known = set(before.keys if before else ())
    merge(
        document,
        "keys",
        fresh,
        identity=lambda each: tuple(each["columns"]),
        comes=lambda each: ",".join(each["columns"]) not in known and named.issuperset(each["columns"]),
        update=update,
    )


def references(document: Any, fresh: list[dict[str, Any]], before: WrittenCatalogue | None, named: set[str]) -> None:
    """Bring the references up to date. One that the catalogue has never known is somebody's own, and stays."""
    codes = {tuple(each["columns"]): each["code"] for each in document.get("references", []) if "code" in each}
    pointing = {tuple(each["columns"]) for each in fresh}
    known = set(before.references if before else ())

    def stays(entry: Entry) -> bool:
        own = said(entry) not in known if before else tuple(entry["columns"]) not in pointing
        return own and named.issuperset(entry["columns"])

    def comes(reference: dict[str, Any]) -> bool:
        taken = {tuple(entry["columns"]) for entry in document.get("references", [])}
        columns = tuple(reference["columns"])
        return said(reference) not in known and columns not in taken and named.issuperset(columns)

    def update(entry: Entry, reference: dict[str, Any]) -> None:
        put(entry, "constraint", reference["constraint"])

    told = [
        each | ({"code": codes[tuple(each["columns"])]} if tuple(each["columns"]) in codes else {}) for each in fresh
    ]
    merge(document, "references", told, identity=said, stays=stays, comes=comes, update=update)


def write_catalogue(document: Any, catalogue: WrittenCatalogue) -> None:
    told = as_table(catalogue)
    if "catalogue" not in document:
        document.add("catalogue", told)
        return
    for name in {*document["catalogue"], *told}:
        put(document["catalogue"], name, told.get(name))


def as_table(catalogue: WrittenCatalogue) -> Any:
    """Return what the catalogue says as a table of a file."""
    table = tomlkit.table()
    table.comment("what the catalogue said when this file was made: leave it")
    for name, value in catalogue.model_dump(mode="json", exclude_defaults=True).items():
        if isinstance(value, dict):
            inline = tomlkit.inline_table()
            inline.update(value)
            table.add(name, inline)
        else:
            table.add(name, value)
    return table
