"""The declarations of adopted tables: TOML files in the folder BULK_RESOURCES, which people edit and keep in git."""

import shutil
import tomllib
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from bulk_pipelines import settings
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.resources import written
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.settings import Settings

ABOUT = """\
The declaration of {place}, for `bulk import --resource {name}` and `bulk export {name}`. Edit it, and keep it in git.
`bulk resources check` says where it and the table differ; docs/resources.md explains every field."""


def folder(chosen: Settings) -> Path:
    return Path(chosen.resources_folder).expanduser() if chosen.resources_folder else chosen.home.parent / "resources"


def file_of(chosen: Settings, name: str) -> Path:
    return folder(chosen) / f"{name}.toml"


def paths(chosen: Settings) -> list[Path]:
    return sorted(folder(chosen).glob("*.toml"))


def adopted(taken: Collection[str]) -> tuple[Resource, ...]:
    """Return the adopted resources, each behind those that it refers to where that is possible."""
    found: dict[str, Resource] = {}
    for path in paths(settings.current()):
        resource = read(path)
        check_free(resource.name, {*taken, *found}, str(path))
        found[resource.name] = resource
    return in_order(found)


def in_order(found: dict[str, Resource]) -> tuple[Resource, ...]:
    """Return each resource behind those that it refers to. Of some that refer to each other in a circle, the first
    comes first."""
    left, ordered = dict(found), list[Resource]()
    while left:
        free = [name for name, each in left.items() if not reached(each, left) - {each.place}]
        circles = [name for name, each in left.items() if each.place in reached(each, left)]
        ordered += [left.pop(name) for name in free or circles[:1]]
    return tuple(ordered)


def reached(resource: Resource, among: Mapping[str, Resource]) -> set[tuple[str, ...]]:
    """Return the tables among these that a resource refers to, directly or through others."""
    places = {each.place: each for each in among.values()}
    found: set[tuple[str, ...]] = set()
    waiting = [resource]
    while waiting:
        each = waiting.pop()
        for reference in each.references:
            if reference.table in places and reference.table not in {*found, each.place}:
                found.add(reference.table)
                waiting.append(places[reference.table])
    return found


def read(path: Path) -> Resource:
    try:
        stamp = path.stat()
        return read_once(path, (stamp.st_mtime_ns, stamp.st_size, stamp.st_ino))
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror}") from None


@lru_cache(maxsize=1_000)
def read_once(path: Path, _stamp: tuple[int, ...]) -> Resource:
    try:
        return parsed(path.read_text(encoding="utf-8"), path)
    except UnicodeDecodeError as error:
        raise InvalidInput(str(path), f"is not TOML: {error}") from None


def parsed(text: str, path: Path) -> Resource:
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(str(path), f"is not TOML: {error}") from None
    resource = written.parse(given, str(path))
    check_name(resource.name, str(path))
    return resource


def check_name(name: str, place: str) -> None:
    if not written.NAME.fullmatch(name):
        raise InvalidInput(place, f"{name!r} cannot be the name of a resource: that has letters, digits and _")
    if name in written.RESERVED:
        raise InvalidInput(
            place,
            f"{name!r} cannot be the name of a resource: it means something else in Dagster."
            f" Take another one, such as my_{name}",
        )


def check_free(name: str, taken: Collection[str], place: str) -> None:
    """Raise `InvalidInput` if another resource has this name, or an asset of its exports."""
    if name in taken:
        raise InvalidInput(place, f"there is another resource {name!r}")
    for one, other in ((name, f"{name}_export"), (name.removesuffix("_export"), name)):
        if one != other and {one, other} - {name} <= set(taken):
            raise InvalidInput(
                place, f"{other!r} is what exports of {one!r} are called in Dagster: give one of the two another name"
            )


def write(chosen: Settings, resource: Resource) -> Path:
    """Write the declaration of a table to its file, which must not be there, and return the path."""
    import tomlkit

    from bulk_pipelines.resources import renewing

    check_name(resource.name, "name")
    path = file_of(chosen, resource.name)
    document = tomlkit.document()
    for line in ABOUT.format(place=".".join(resource.place), name=resource.name).splitlines():
        document.add(tomlkit.comment(line))
    for name, value in written.as_dict(resource).items():
        document.add(name, tomlkit.item(value))
    document.add("catalogue", renewing.as_table(renewing.catalogue_of(resource)))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(tomlkit.dumps(document))
    except FileExistsError:
        raise Conflict(f"{path} is there already: edit it, or bring it up to date with --again") from None
    return path


def renew(path: Path, fresh: Resource) -> Resource:
    """Bring the file of a declaration up to date with the catalogue, and return the declaration."""
    from bulk_pipelines.resources import renewing

    with path.open(encoding="utf-8", newline="") as file:
        before = file.read()
    after = renewing.renewed(before.replace("\r\n", "\n"), fresh)
    if "\r\n" in before:
        after = after.replace("\n", "\r\n")
    resource = parsed(after, path)
    if after != before:
        # Whoever reads the file meanwhile, or dies here, finds one of the two texts whole.
        beside = path.resolve().with_suffix(".new")
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(after)
        shutil.copymode(path, beside)
        beside.replace(path.resolve())
    return resource
