"""One row is looked up: providers are asked in their order, and each is asked by the variants of the query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from bulk_pipelines.errors import Failure, InvalidInput, Permanent, Transient
from bulk_pipelines.processing import results
from bulk_pipelines.processing.lookup.asks import Ask, question
from bulk_pipelines.processing.providers.asking import Call, Desk
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes import forms
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.recipes.declaration import QUERY, Recipe, Source, Variant, rotated
from bulk_pipelines.processing.recipes.templates import filled
from bulk_pipelines.processing.recipes.types import Looked, RecipeType, Try
from bulk_pipelines.processing.results import Finding, Origin, Outcome

NO_REQUEST = "the row has no value for any of the recipe's requests"


@lru_cache(maxsize=64)
def asks_of(recipe: Recipe) -> tuple[Ask, ...]:
    with Fields(f"recipe.{recipe.name}", recipe.options) as fields:
        return tuple(Ask.parse(each) for each in fields.tables("asks"))


def check(recipe: Recipe, providers: Mapping[str, Provider]) -> None:
    place = f"recipe.{recipe.name}"
    asks = asks_of(recipe)
    if not asks:
        raise InvalidInput(f"{place}.asks", "is missing: it says which providers are asked, and how")
    if not recipe.variants:
        raise InvalidInput(f"{place}.variants", "is missing: it says how a query is made of a row")
    for number, ask in enumerate(asks):
        if ask.provider not in providers:
            raise InvalidInput(f"{place}.asks[{number}].provider", f"{ask.provider!r} is not declared")
    answered = {key for ask in asks for key in ask.answer}
    for column in recipe.columns:
        if column.source is Source.ANSWER and column.key not in answered:
            raise InvalidInput(f"{place}.columns", f"{column.header!r} shows {column.key!r}, which no answer has")


def reads(recipe: Recipe) -> set[str]:
    return {name for ask in asks_of(recipe) for name in ask.columns} - {QUERY}


@dataclass
class Seen:
    """What was found in one try so far."""

    ambiguous: Finding | None = None
    nothing: Finding | None = None
    errors: list[Failure] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, found: Finding) -> None:
        if found.outcome is Outcome.AMBIGUOUS:
            self.ambiguous = self.ambiguous or found
        else:
            self.nothing = self.nothing or found

    def fail(self, ask: Ask, variant: Variant, error: Failure) -> None:
        self.errors.append(error)
        self.faults.append(f"{ask.provider}, {variant.name}: {error}")

    def looked(self) -> Looked:
        """Return what the try came to when nothing matched."""
        if self.ambiguous is not None:
            return Looked(replace(self.ambiguous, faults=tuple(self.faults)))
        if self.errors:
            error = worst(self.errors)
            return Looked(results.failed(error, *self.faults), error)
        return Looked(self.nothing or Finding(Outcome.SKIPPED, reason=NO_REQUEST))


def look(recipe: Recipe, tried: Try, desk: Desk) -> Looked:
    """Ask until something matches. The first ambiguous finding is kept in case nothing does."""
    queries = queries_of(tried)
    if not queries:
        return Looked(Finding(Outcome.SKIPPED, reason="the row has no value for any of the recipe's queries"))
    seen = Seen()
    for ask in rotated(asks_of(recipe), tried.attempt):
        for variant, query in queries:
            try:
                found = asked(recipe, ask, variant, query, tried, desk)
            except Permanent as error:
                seen.fail(ask, variant, error)
                continue
            except Failure as error:
                seen.fail(ask, variant, error)
                break  # the provider is in trouble: the next one may answer
            if found is not None and found.outcome is Outcome.MATCHED:
                return Looked(replace(found, faults=tuple(seen.faults)))
            if found is not None:
                seen.add(found)
    return seen.looked()


def queries_of(tried: Try) -> list[tuple[Variant, str]]:
    """Return the queries of this try. Two variants that come to the same are asked once."""
    found: dict[str, Variant] = {}
    for variant in tried.variants:
        written = filled(variant.query, tried.row)
        query = None if written is None else forms.formed(variant.form, written)
        if query is not None:
            found.setdefault(query, variant)
    return [(variant, query) for query, variant in found.items()]


def asked(recipe: Recipe, ask: Ask, variant: Variant, query: str, tried: Try, desk: Desk) -> Finding | None:
    """Ask one provider by one variant; None when the row lacks what the request needs."""
    request = ask.request({**tried.row, QUERY: query})
    if request is None:
        return None
    text = question(ask, request)
    traced = replace(request, headers={**request.headers, "traceparent": tried.envelope.trace_parent})

    def fetch(_: Sequence[str], call: Call) -> dict[str, Any]:
        said = ask.worth(call(traced))
        if said is not None:
            ask.read(said, query)  # what cannot be read is not kept
        return {text: said}

    answer = desk.ask(ask.provider, [text], fetch, serving=tried.serving)[text]
    origin = Origin(variant.name, ask.provider, answer.cached, answer.asked_at)
    candidates = [] if answer.value is None else ask.read(answer.value, query)
    return results.judged(recipe, candidates, origin, take_first=ask.take_first)


def worst(errors: list[Failure]) -> Failure:
    """Return the failure that decides what becomes of the item: one that may pass comes before one that will not."""
    passing: list[Any] = [each for each in errors if isinstance(each, Transient)]
    return min(passing, key=lambda each: each.retry_after or 0.0) if passing else errors[0]


TYPE = RecipeType(
    name="lookup",
    asset="lookups",
    says="Rows looked up at any web services that answer with JSON.",
    check=check,
    look=look,
    reads=reads,
)
