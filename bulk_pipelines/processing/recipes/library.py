"""The recipes and providers that are declared: those that come with the project, those of installed packages, and those
of the folder BULK_RECIPES. A later one takes the place of an earlier one of its name."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines.processing import types
from bulk_pipelines.processing.providers.provider import Provider, checked_header
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.settings import Settings

YAML = (".yaml", ".yml")
ENDINGS = (".toml", *YAML)
GROUP = "bulk_pipelines.recipes"
"""The entry points by which packages bring declarations: a mapping as the TOML file has it, or a function that returns
one."""


@dataclass(frozen=True)
class Library:
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    providers: Mapping[str, Provider] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each recipe is declared."""

    def recipe(self, name: str) -> Recipe:
        try:
            return self.recipes[name]
        except KeyError:
            known = ", ".join(sorted(self.recipes)) or "none"
            raise NotFound(f"there is no recipe {name!r}; there are {known}: see `bulk recipes list`") from None

    def to_run(self, name: str) -> Recipe:
        """Return a recipe whose rows can be worked here. Raise `InvalidInput` when something that it needs is not set
        in this installation."""
        recipe = self.recipe(name)
        types.find(recipe.type).ready(recipe, self.providers)
        return recipe


def load(chosen: Settings, besides: Sequence[Path] = ()) -> Library:
    """Read all declarations, and those of some files besides. An error names the file and the field."""
    recipes: dict[str, Recipe] = {}
    providers: dict[str, Provider] = {}
    places: dict[str, str] = {}
    written = [path for path in sorted(folder(chosen).glob("*")) if is_file(path)]
    for place, given in declarations([*written, *besides]):
        try:
            found_recipes, found_providers = parsed(given)
        except InvalidInput as error:
            raise InvalidInput(place, str(error)) from None
        recipes |= found_recipes
        providers |= {name: introduced(each, chosen.contact) for name, each in found_providers.items()}
        places |= dict.fromkeys(found_recipes, place)
    check_shared(providers.values())
    for name, recipe in recipes.items():
        try:
            types.find(recipe.type).check(recipe, providers)
        except InvalidInput as error:
            raise InvalidInput(places[name], str(error)) from None
    return Library(recipes, providers, places)


def introduced(provider: Provider, contact: str) -> Provider:
    """Return the provider with the installation's contact, if it has none of its own."""
    return provider if provider.contact else replace(provider, contact=checked_header("BULK_CONTACT", contact))


def check_shared(providers: Iterable[Provider]) -> None:
    """Raise `InvalidInput` if two providers that share a limit do not say the same of it."""
    first: dict[str, Provider] = {}
    for each in providers:
        other = first.setdefault(each.shares, each) if each.shares else each
        if (each.windows, each.at_once, each.delay) != (other.windows, other.at_once, other.delay):
            said = f"shares {each.shares!r} with {other.name}, but has another per_minute, at_once or delay"
            raise InvalidInput(f"provider.{each.name}.shares", said)


def folder(chosen: Settings) -> Path:
    """Return the folder of the declarations that people write."""
    return Path(chosen.recipes_folder).expanduser() if chosen.recipes_folder else chosen.home.parent / "recipes"


def declarations(written: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    for each in sorted(files("bulk_pipelines.processing.recipes").iterdir(), key=lambda each: each.name):
        if each.name.endswith(".toml"):
            yield f"built in: {each.name}", tomllib.loads(each.read_text(encoding="utf-8"))
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        given = point.load()
        yield f"{point.value}", given() if callable(given) else given
    for path in written:
        yield str(path), placed(read(path), path.parent)


def read(path: Path) -> Any:
    """Read a file of declarations: YAML if its name says so, else TOML."""
    kind = "YAML" if path.suffix in YAML else "TOML"
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.safe_load(text) if kind == "YAML" else tomllib.loads(text)
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(str(path), f"is not {kind}: {' '.join(str(error).split())}") from None


def placed(given: Any, folder: Path) -> Any:
    """Return declarations in which a file of a reference that stands beside them has its whole path."""
    if not isinstance(given, Mapping) or not isinstance(given.get("recipe"), Mapping):
        return given
    recipes = given["recipe"]
    return {**given, "recipe": {name: with_whole_path(each, folder) for name, each in recipes.items()}}


def with_whole_path(recipe: Any, folder: Path) -> Any:
    if not isinstance(recipe, Mapping) or not isinstance(recipe.get("reference"), Mapping):
        return recipe
    reference = recipe["reference"]
    file = reference.get("file")
    if not isinstance(file, str) or "://" in file:
        return recipe
    return {**recipe, "reference": {**reference, "file": str(folder.absolute() / file)}}


def chosen_by(chosen: Settings, name: str) -> Recipe:
    """Return a recipe by its name, or the one recipe of a file. The file is read with this process's own rights, so no
    door that strangers can reach may call this."""
    installed = load(chosen)
    path = Path(name)
    if not is_file(path):
        return installed.to_run(name)
    recipe = load(chosen, [path]).to_run(only_recipe(path, chosen))
    # Workers read the installed declarations, and know no provider of this file.
    types.find(recipe.type).check(recipe, installed.providers)
    return recipe


def tried(chosen: Settings, name: str) -> tuple["Library", Recipe]:
    """Return a recipe, by its name or as the one recipe of a file, and the declarations that it is tried with."""
    path = Path(name)
    found = load(chosen, [path] if is_file(path) else [])
    return found, found.recipe(only_recipe(path, chosen) if is_file(path) else name)


def is_file(path: Path) -> bool:
    return path.suffix in ENDINGS


def only_recipe(path: Path, chosen: Settings) -> str:
    recipes, _ = parsed(read(path))
    if len(recipes) != 1:
        raise InvalidInput(str(path), f"has {len(recipes)} recipes: put it into {folder(chosen)}, and name one of them")
    return next(iter(recipes))


def parsed(given: object) -> tuple[dict[str, Recipe], dict[str, Provider]]:
    with Fields("declarations", given) as fields:
        recipes = {name: Recipe.parse(name, each) for name, each in named(fields, "recipe").items()}
        providers = {name: Provider.parse(name, each) for name, each in named(fields, "provider").items()}
    return recipes, providers


def named(fields: Fields, name: str) -> dict[str, Any]:
    value = fields.take(name, {})
    if not isinstance(value, Mapping):
        raise InvalidInput(name, "must be a table of tables")
    return {str(key): each for key, each in value.items()}
