"""The declaration of a recipe: how one row is looked up, and what the grid shows of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from bulk_pipelines import settings
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.recipes import forms, templates
from bulk_pipelines.processing.recipes.checking import Fields, checked_name
from bulk_pipelines.processing.recipes.forms import Form

MOST_ATTEMPTS = 20
QUERY = "query"
"""The name that stands for the text of the variant in the templates of a request."""


class Source(StrEnum):
    """Where a column of the grid comes from."""

    INPUT = "input"
    ANSWER = "answer"
    EVIDENCE = "evidence"


EVIDENCE = (
    "outcome",
    "id",
    "name",
    "score",
    "lead",
    "variant",
    "provider",
    "cached",
    "asked_at",
    "candidates",
    "reason",
    "decision",
    "decided_by",
)
"""The fields of the evidence that the grid can show."""


@dataclass(frozen=True)
class GridColumn:
    header: str
    source: Source
    key: str


@dataclass(frozen=True)
class Variant:
    """One way to make a query of a row."""

    name: str
    query: str
    form: Form = Form.WRITTEN
    """What is done to the query's text."""


@dataclass(frozen=True)
class Recipe:
    name: str
    type: str
    says: str
    needs: tuple[str, ...]
    """The columns that a source must have."""
    variants: tuple[Variant, ...]
    """The queries, in the order in which they are tried."""
    columns: tuple[GridColumn, ...]
    """The columns of the grid. When they are empty, the grid shows the source's columns and the evidence."""
    threshold: float
    """The least score of a match, from 0 to 1."""
    margin: float
    """How much better than the second candidate a match must be."""
    floor: float
    """The least score of a candidate that is worth a look."""
    attempts: int
    """How often a row that fails is tried; the settings decide when the recipe does not say it."""
    not_found_attempts: int
    """How often a row is tried for which nothing is found; 0 leaves it to the type of recipe and to the settings."""
    per_try: int
    """How many variants one attempt asks for; 0 means all."""
    at_once: int
    """How many rows one worker works at the same time."""
    matched_share: float
    """The share of rows that are expected to match; a check warns when it is less."""
    options: Mapping[str, Any] = field(hash=False)
    """The fields that belong to the type of recipe, which checks them."""
    given: Mapping[str, Any] = field(hash=False, compare=False)
    """The declaration as it was written, which a job keeps."""

    @classmethod
    def parse(cls, name: str, given: object) -> Self:
        place = f"recipe.{name}"
        checked_name(place, name)
        with Fields(place, given) as fields:
            return cls(
                name=name,
                type=fields.text("type"),
                says=fields.text("says", ""),
                needs=fields.texts("needs"),
                variants=tuple(variant(each) for each in fields.tables("variants")),
                columns=tuple(grid_column(each) for each in fields.tables("columns")),
                threshold=fields.number("threshold", 0.0, most=1.0),
                margin=fields.number("margin", 0.0, most=1.0),
                floor=fields.number("floor", 0.0, most=1.0),
                attempts=fields.whole("attempts", attempts_by_settings(), least=1, most=MOST_ATTEMPTS),
                not_found_attempts=fields.whole("not_found_attempts", 0, most=MOST_ATTEMPTS),
                per_try=fields.whole("per_try", 0, most=100),
                at_once=fields.whole("at_once", 4, least=1, most=64),
                matched_share=fields.number("matched_share", 0.0, most=1.0),
                options=dict(options(fields)),
                given=dict(given) if isinstance(given, Mapping) else {},
            ).checked(place)

    def checked(self, place: str) -> Self:
        for names, said in (
            ([each.name for each in self.variants], "variants"),
            ([each.header for each in self.columns], "columns"),
        ):
            if len(set(names)) < len(names):
                raise InvalidInput(f"{place}.{said}", "two of them have the same name")
        return self

    @property
    def inputs(self) -> set[str]:
        """The columns that variants and the grid read."""
        read = {key for each in self.variants for key in templates.columns_of(self.name, each.query)}
        return read | {each.key for each in self.columns if each.source is Source.INPUT}

    @property
    def digest(self) -> str:
        """Which declaration this is, in a few characters."""
        return hashlib.sha256(payload.canonical("recipe", dict(self.given)).encode()).hexdigest()[:12]

    def variants_of(self, attempt: int, chosen: tuple[str, ...] = ()) -> tuple[Variant, ...]:
        """Return the variants of an attempt in their order: each attempt begins with another one. If `chosen` names
        variants, it is those."""
        if chosen:
            return self.named(chosen)
        step = self.per_try or 1
        turned = rotated(self.variants, 1 + (attempt - 1) * step)
        return turned[: self.per_try] if self.per_try else turned

    def named(self, names: tuple[str, ...]) -> tuple[Variant, ...]:
        """Return the variants of these names, in the order of the names."""
        known = {each.name: each for each in self.variants}
        for name in names:
            if name not in known:
                raise InvalidInput("variants", f"{self.name} has no variant {name!r}; it has {', '.join(known)}")
        return tuple(known[name] for name in names)


def attempts_by_settings() -> int:
    """Return how often a row that fails is tried by a recipe that does not say it."""
    return min(settings.current().engine.max_attempts_error, MOST_ATTEMPTS)


def rotated(things: tuple[Any, ...], attempt: int) -> tuple[Any, ...]:
    first = (attempt - 1) % len(things) if things else 0
    return (*things[first:], *things[:first])


def variant(fields: Fields) -> Variant:
    with fields:
        found = Variant(
            fields.text("name"), fields.text("query"), forms.parse(fields.at("form"), fields.text("form", ""))
        )
        templates.columns_of(fields.at("query"), found.query)
        return found


def grid_column(fields: Fields) -> GridColumn:
    with fields:
        header = payload.text(fields.at("header"), fields.take("header"), 255)
        named = {source: fields.optional(source) for source in Source}
        chosen = [(source, key) for source, key in named.items() if key is not None]
        if len(chosen) != 1:
            raise InvalidInput(fields.at(header), f"names one of {', '.join(Source)}, not {len(chosen)}")
        source, key = chosen[0]
        if source is Source.EVIDENCE and key not in EVIDENCE:
            raise InvalidInput(fields.at("evidence"), f"there is no {key!r}; there are {', '.join(EVIDENCE)}")
        return GridColumn(header, source, key)


def options(fields: Fields) -> list[tuple[str, Any]]:
    """Take all that is left: the fields of the recipe's type."""
    return [(str(name), fields.take(name)) for name in list(fields.given)]
