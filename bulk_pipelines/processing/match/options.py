"""What is declared of a recipe that matches rows with a reference."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.references import Columns
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.recipes.declaration import Recipe, Source
from bulk_pipelines.processing.references.declaration import Reference


@dataclass(frozen=True)
class Options:
    reference: Reference
    row: Columns
    """The columns of a row that are evidence besides its names. Its names come from the recipe's variants."""
    one_to_one: bool
    """Whether no entry is matched with two rows of a job."""
    itself: str
    """The column with a row's own id, if the rows are entries of the reference: then doubles are looked for."""

    @property
    def said(self) -> set[str]:
        """The columns of a row that a match depends on, besides those of its names."""
        row, itself = self.row, {self.itself} if self.itself else set()
        return {each for each in (row.description, *row.types, *row.countries, *row.websites) if each} | itself


@lru_cache(maxsize=64)
def options_of(recipe: Recipe) -> Options:
    with Fields(f"recipe.{recipe.name}", recipe.options) as fields:
        return Options(
            Reference.parse(fields.table("reference")),
            columns_of(fields.table("row")),
            fields.flag("one_to_one", False),
            fields.text("itself", ""),
        )


def columns_of(fields: Fields) -> Columns:
    with fields:
        return Columns(
            ("",),
            description=fields.text("description", ""),
            types=fields.texts("types"),
            countries=fields.texts("countries"),
            websites=fields.texts("websites"),
        )


def check(recipe: Recipe, _: Mapping[str, Provider]) -> None:
    place = f"recipe.{recipe.name}"
    options = options_of(recipe)
    if not recipe.variants:
        raise InvalidInput(f"{place}.variants", "is missing: it says what the names of a row are")
    if options.one_to_one and options.itself:
        raise InvalidInput(f"{place}.one_to_one", "goes with a reference of other things: leave out itself")


def reads(recipe: Recipe) -> set[str]:
    return options_of(recipe).said


def answers(recipe: Recipe) -> tuple[str, ...]:
    """Return the columns of the reference that the grid shows."""
    return tuple(dict.fromkeys(each.key for each in recipe.columns if each.source is Source.ANSWER))


def judging(recipe: Recipe) -> Recipe:
    """Return the recipe with the thresholds that hold: those of the model, unless the recipe names others. An entry may
    have several doubles, so looking for them asks for no lead."""
    model = Model.standard()
    standard: dict[str, Any] = {"threshold": model.threshold, "margin": model.margin, "floor": model.floor}
    if options_of(recipe).itself:
        standard["margin"] = 0.0
    return replace(recipe, **{name: value for name, value in standard.items() if name not in recipe.given})
