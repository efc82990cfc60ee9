"""The services that this installation offers: the references of its recipes, by the names of the recipes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.errors import NotFound
from bulk_pipelines.processing.match import matching
from bulk_pipelines.processing.match.options import answers, judging, options_of
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.references import rows
from bulk_pipelines.processing.references.held import HELD
from bulk_pipelines.settings import Settings

ASKER = "service"


@dataclass(frozen=True)
class Service:
    """A reference that can be asked. The thresholds of its recipe hold."""

    recipe: Recipe
    pool: Engine
    address: str
    """Where clients find it, without a slash at the end."""

    @property
    def name(self) -> str:
        return self.recipe.says or self.recipe.name

    @property
    def model(self) -> Model:
        limits = judging(self.recipe)
        return replace(Model.standard(), threshold=limits.threshold, margin=limits.margin, floor=limits.floor)

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that the recipe names, which are all that clients are shown."""
        named = (*options_of(self.recipe).reference.columns.all, *answers(self.recipe))
        return {name: name for name in named}

    def index(self) -> Index:
        return HELD.of(self.pool, options_of(self.recipe).reference, ASKER)

    def values(self, ids: Collection[str], columns: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return the values of some columns, by the ids of the entries that there are."""
        found = rows.found(self.pool, options_of(self.recipe).reference, ids, tuple(columns))
        return {entry: each.answer for entry, each in found.items()}


def opened(pool: Engine, chosen: Settings, name: str, address: str) -> Service:
    """Return the service of a recipe."""
    recipe = library.load(chosen).recipes.get(name)
    if recipe is None or recipe.type != matching.TYPE.name:
        raise NotFound(f"there is no reference {name!r}: recipes of the type match have one")
    return Service(recipe, pool, address)


def refreshed(service: Service) -> None:
    """Load the reference anew if it is a file that has changed. This is called for the manifest, with which clients
    begin."""
    matching.load(service.pool, service.recipe)


def names(chosen: Settings) -> list[str]:
    return sorted(name for name, each in library.load(chosen).recipes.items() if each.type == matching.TYPE.name)
