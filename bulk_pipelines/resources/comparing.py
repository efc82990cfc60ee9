"""Comparing a declaration with its table, to find where the two have come to differ."""

from collections.abc import Sequence
from dataclasses import dataclass

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Column, Reference, Referrer, Resource
from bulk_pipelines.resources.rules import OneOf


@dataclass(frozen=True)
class Difference:
    said: str
    grave: bool
    """Whether no import can do its work until the difference is mended."""


def differences(connection: Connection, declared: Resource) -> list[Difference]:
    """Compare the declaration of an adopted table with the table as it is now. Raise `InvalidInput` if it is gone."""
    actual = reflection.reflect(connection, reflection.quoted(connection, declared.place), declared.name)
    there = {column.name: column for column in actual.columns}
    table = ".".join(declared.place)
    values = dict(zip(("schema", "table"), declared.place, strict=True))
    made = {name for (name,) in connection.execute(queries.text("reflection", "made_by_table"), values)}
    found = []
    for column in declared.columns:
        if column.name in made:
            found.append(Difference(f"the table makes its column {column.name} itself, so no file can give it", True))
        else:
            found += of_column(table, column, there.get(column.name))
    known = set(declared.column_names)
    for column in actual.columns:
        if column.name not in known:
            needed = column.needed_in_files
            value = ", which needs a value" if needed else ""
            found.append(Difference(f"the table has a column {column.name} ({column.type}){value}", needed))
    found += of_keys(declared, actual)
    found += of_references(connection, declared, actual)
    if declared.provenance != actual.provenance:
        has = "has" if actual.provenance else "lacks"
        found.append(Difference(f"the table {has} the columns of provenance", declared.provenance))
    elif actual.provenance and (unnoted := reflection.unnoted(connection, declared.place)):
        found.append(
            Difference(f"changes of rows of {', '.join(unnoted)} are not noted, so no import is undone", False)
        )
    return found + of_referrers(connection, declared, actual)


def of_column(table: str, declared: Column, actual: Column | None) -> list[Difference]:
    name = declared.name
    if actual is None:
        return [Difference(f"the table has no column {name}", True)]
    if (declared.type, declared.exact_type) != (actual.type, actual.exact_type):
        said = f"its column {name} is {type_of(actual)}, but is declared as {type_of(declared)}"
        return [Difference(said, True)]
    found = []
    if actual.required and not declared.required:
        found.append(Difference(f"its column {name} needs a value, and the declaration does not require it", False))
    if declared.has_default and not actual.has_default and actual.required and declared.fill is None:
        found.append(Difference(f"its column {name} has no default any more", True))
    if declared.needed_in_files and actual.has_default:
        told = f"its column {name} has a default by now, and the declaration does not say so: files must have it"
        found.append(Difference(told, False))
    if actual.takes_empty and not declared.takes_empty:
        told = (
            f"its column {name} takes an empty text as a value, but the declaration says that it is none, so NULL is"
            f" loaded: `bulk resources adopt {table} --again` makes the declaration anew"
        )
        found.append(Difference(told, False))
    return found + of_labels(declared, actual)


def type_of(column: Column) -> str:
    return f"{column.type}, which is {column.stored_as}" if column.stored_as else column.type


def of_labels(declared: Column, actual: Column) -> list[Difference]:
    """Compare the labels of an enum with the values that are allowed. If none are named, the table alone judges."""
    labels = {value for rule in actual.rules if isinstance(rule, OneOf) for value in rule.values}
    allowed = {value for rule in declared.rules if isinstance(rule, OneOf) for value in rule.values}
    found = []
    if labels and allowed - labels:
        said = f"its column {declared.name} does not know {', '.join(sorted(allowed - labels))}"
        found.append(Difference(said, True))
    if allowed and labels - allowed:
        found.append(Difference(f"its column {declared.name} also knows {', '.join(sorted(labels - allowed))}", False))
    return found


def of_keys(declared: Resource, actual: Resource) -> list[Difference]:
    ours, theirs = ({key.columns: key for key in side.keys} for side in (declared, actual))
    known = set(declared.column_names)
    found = [
        Difference(f"the table has no unique key on {key.name} that files can give", True)
        for columns, key in ours.items()
        if columns not in theirs
    ]
    found += [
        Difference(f"the table has another unique key, on {', '.join(columns)}", False)
        for columns in sorted(theirs)
        if columns not in ours and known.issuperset(columns)
    ]
    return found + [
        renamed("key on", key.name, theirs[columns].constraint, key.constraint)
        for columns, key in ours.items()
        if columns in theirs and theirs[columns].constraint != key.constraint
    ]


def renamed(what: str, columns: str, now: str, before: str) -> Difference:
    return Difference(f"its {what} {columns} is called {now} by now, and {before} in the declaration", False)


def of_references(connection: Connection, declared: Resource, actual: Resource) -> list[Difference]:
    """Compare the references. One that no foreign key says is looked up all the same, so the other table must be there,
    and this role must be able to see all of its rows, as PostgreSQL does for a foreign key."""
    ours, theirs = ({pointing(each): each for each in side.references} for side in (declared, actual))
    known = set(declared.column_names)
    found = []
    for name, each in ours.items():
        wrong = unusable(connection, each)
        if wrong is not None:
            found.append(Difference(wrong, True))
        elif name not in theirs:
            found.append(Difference(f"no foreign key says that {name}: imports go by the declaration", False))
        elif theirs[name].constraint != each.constraint:
            found.append(renamed("reference of", each.name, theirs[name].constraint, each.constraint))
    found += [
        Difference(f"by now {name}", False)
        for name, each in theirs.items()
        if name not in ours and known.issuperset(each.columns)
    ]
    return sorted(found, key=lambda each: (not each.grave, each.said))


def pointing(reference: Reference) -> str:
    return f"{reference.name} refers to {'.'.join(reference.table)} ({','.join(reference.to)})"


def unusable(connection: Connection, reference: Reference) -> str | None:
    """Say why nobody could look up what a reference names; None if all is well."""
    table = ".".join(reference.table)
    named = f"{table}, which {reference.name} refers to"
    other = seen(connection, reference.table, reference.to)
    match other:
        case None:
            return f"the table {named}, is not there"
        case (_, _, [*missing]) if missing:
            return f"the table {named}, has no column {', '.join(missing)}"
        case (False, _, _):
            return f"this role may not read {named}: GRANT SELECT ON {table} TO it"
        case (_, True, _):
            return f"row-level security of {named}, holds for this role"
    return None


def of_referrers(connection: Connection, declared: Resource, actual: Resource) -> list[Difference]:
    """Compare what refers to the table. What this role cannot see may be there all the same."""
    new = [
        f"{named(each)} refers to it since it was adopted"
        for each in actual.referrers
        if each not in declared.referrers
    ]
    gone = []
    for each in set(declared.referrers) - set(actual.referrers):
        other = seen(connection, (each.schema, each.table), ())
        if other is None or (other[0] and not other[1]):
            gone.append(f"{named(each)} does not refer to it any more")
    return [Difference(said, False) for said in sorted(new + gone)]


def named(referrer: Referrer) -> str:
    return f"{referrer.schema}.{referrer.table} ({','.join(referrer.columns)})"


def seen(connection: Connection, place: Sequence[str], columns: Sequence[str]) -> tuple[bool, bool, list[str]] | None:
    """Look at another table: whether this role may read it, whether rows may be hidden from it, and which of the
    columns are not there."""
    values = dict(zip(("schema", "table"), place, strict=True)) | {"columns": list(columns)}
    return connection.execute(queries.text("reflection", "other_table"), values).fetchone()


def refuse_grave(connection: Connection, declared: Resource) -> None:
    """Raise `InvalidInput`, which says what to do, if the table is not what its declaration says."""
    place = ".".join(declared.place)
    try:
        found = [each.said for each in differences(connection, declared) if each.grave]
    except InvalidInput as error:
        raise InvalidInput("table", f"{error.message}. Was {place} renamed or removed since it was declared?") from None
    if found:
        raise InvalidInput(
            "table",
            f"the table {place} is not what its declaration says: {'; '.join(found)}. Mend the table or the declaration"
            f" (`bulk resources check`, `bulk resources adopt --again`), and import again",
        )
