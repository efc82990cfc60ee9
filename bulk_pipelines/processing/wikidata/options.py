"""What a recipe of the type `wikidata` declares."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.recipes.declaration import Recipe, Source

ITEM = re.compile(r"Q[1-9]\d{0,11}")
PROPERTY = re.compile(r"P[1-9]\d{0,11}")
LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*|mul")
INSTANCE_OF, COUNTRY, WEBSITE = "P31", "P17", "P856"
ANSWERS = ("label", "description", "aliases", "url")
"""The fields of an entity that the grid can show, besides properties by their ids."""
THRESHOLD, MARGIN, FLOOR = 0.5, 0.1, 0.1


@dataclass(frozen=True)
class Options:
    provider: str
    sparql: str
    """The provider of SPARQL; empty: nobody is asked by it."""
    titles: tuple[str, ...]
    """The wikis that are asked for pages of exactly the row's name."""
    languages: tuple[str, ...]
    types: tuple[str, ...]
    """The classes that an entity is an instance of, or of one of their subclasses."""
    identifiers: tuple[tuple[str, str], ...]
    """Properties that hold identifiers, with templates of their values: an entity with one is the right one."""
    properties: tuple[tuple[str, str], ...]
    """Properties that speak for or against an entity, with templates of their values."""
    context: str
    country: str
    website: str
    shown: tuple[str, ...]
    """The properties that the grid shows."""

    @property
    def judged_by_claims(self) -> bool:
        """Whether claims say more about an entity than its names do."""
        return bool(self.types or self.properties or self.country or self.website)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The properties that are of use, in order."""
        judging = {INSTANCE_OF, COUNTRY, WEBSITE} | {pid for pid, _ in self.properties}
        return tuple(sorted(judging | set(self.shown)))


@lru_cache(maxsize=64)
def options_of(recipe: Recipe) -> Options:
    with Fields(f"recipe.{recipe.name}", recipe.options) as fields:
        options = Options(
            provider=fields.text("provider", "wikidata"),
            sparql=fields.text("sparql", "wikidata-query") if fields.given.get("sparql") != "" else blank(fields),
            titles=fields.texts("titles"),
            languages=fields.texts("languages") or ("en", "mul"),
            types=fields.texts("types"),
            identifiers=tuple(property_of(each) for each in fields.tables("identifiers")),
            properties=tuple(property_of(each) for each in fields.tables("properties")),
            context=template(fields, "context"),
            country=template(fields, "country"),
            website=template(fields, "website"),
            shown=tuple(each.key for each in recipe.columns if is_property(each.source, each.key)),
        )
    check_words(f"recipe.{recipe.name}.languages", options.languages, LANGUAGE, "code of a language")
    check_words(f"recipe.{recipe.name}.types", options.types, ITEM, "id of an item: Q and a number")
    return options


def blank(fields: Fields) -> str:
    return str(fields.take("sparql"))


def template(fields: Fields, name: str) -> str:
    text = fields.text(name, "")
    templates.columns_of(fields.at(name), text)
    return text


def property_of(fields: Fields) -> tuple[str, str]:
    with fields:
        pid, value = fields.text("property"), template(fields, "value")
        check_words(fields.at("property"), (pid,), PROPERTY, "id of a property: P and a number")
        return pid, value


def check_words(place: str, words: tuple[str, ...], wanted: re.Pattern[str], said: str) -> None:
    for each in words:
        if not wanted.fullmatch(each):
            raise InvalidInput(place, f"{each!r} is no {said}")


def is_property(source: Source, key: str) -> bool:
    return source is Source.ANSWER and key not in ANSWERS


def check(recipe: Recipe, providers: Mapping[str, Provider]) -> None:
    place = f"recipe.{recipe.name}"
    options = options_of(recipe)
    for name in used(options):
        if name not in providers:
            raise InvalidInput(f"{place}.provider", f"{name!r} is not declared")
    if not recipe.variants and not options.identifiers:
        raise InvalidInput(f"{place}.variants", "is missing: it says how a query is made of a row")
    if options.identifiers and not options.sparql:
        raise InvalidInput(f"{place}.identifiers", "are looked up by SPARQL: name its provider")
    for column in recipe.columns:
        if is_property(column.source, column.key) and not PROPERTY.fullmatch(column.key):
            said = f"there is no {column.key!r}; there are {', '.join(ANSWERS)}, and properties by their ids"
            raise InvalidInput(f"{place}.columns", said)


def ready(recipe: Recipe, providers: Mapping[str, Provider]) -> None:
    """Refuse to run without the operator's contact."""
    for name in used(options_of(recipe)):
        providers[name].check_contact()


def used(options: Options) -> list[str]:
    return [options.provider, *([options.sparql] if options.sparql else []), *options.titles]
