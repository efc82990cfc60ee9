"""The rows of a claim are reconciled together. There is a round for each variant, and in a round one request has as
many rows as the service takes."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from bulk_pipelines.errors import Failure, InvalidInput, Transient
from bulk_pipelines.processing import results
from bulk_pipelines.processing.lookup.looking import queries_of
from bulk_pipelines.processing.providers.answers import Answer, Serving
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.recipes.declaration import Recipe, Source, Variant
from bulk_pipelines.processing.recipes.types import Looked, RecipeType, Try
from bulk_pipelines.processing.reconcile import protocol
from bulk_pipelines.processing.reconcile import protocol as service
from bulk_pipelines.processing.reconcile.protocol import Service
from bulk_pipelines.processing.results import Finding, Origin, Outcome
from bulk_pipelines.storage.errors import Refused

ANSWERS = ("description", "types", "match")
"""The fields of a candidate that the grid can show."""
NO_QUERY = Looked(Finding(Outcome.SKIPPED, reason="the row has no value for any of the recipe's queries"))


@dataclass(frozen=True)
class Options:
    provider: str
    path: str
    """Where the service is, relative to the provider's address."""
    entity_type: str
    properties: tuple[tuple[str, str], ...]
    """The properties that are sent as evidence, with templates of their values."""
    batch: int
    limit: int
    score_scale: float
    trust: bool
    """Whether a candidate that the service calls a certain match is one, whatever its score."""


@lru_cache(maxsize=64)
def options_of(recipe: Recipe) -> Options:
    with Fields(f"recipe.{recipe.name}", recipe.options) as fields:
        return Options(
            fields.text("provider"),
            fields.text("path", "").strip("/"),
            fields.text("entity_type", ""),
            tuple(property_of(each) for each in fields.tables("properties")),
            fields.whole("batch", 10, least=1, most=100),
            fields.whole("limit", 5, least=1, most=50),
            fields.number("score_scale", 100.0, least=1e-9),
            fields.flag("trust", True),
        )


def property_of(fields: Fields) -> tuple[str, str]:
    with fields:
        pid, value = fields.text("id"), fields.text("value")
        templates.columns_of(fields.at("value"), value)
        return pid, value


def check(recipe: Recipe, providers: Mapping[str, Provider]) -> None:
    place = f"recipe.{recipe.name}"
    options = options_of(recipe)
    if options.provider not in providers:
        raise InvalidInput(f"{place}.provider", f"{options.provider!r} is not declared")
    if not recipe.variants:
        raise InvalidInput(f"{place}.variants", "is missing: it says how a query is made of a row")
    for column in recipe.columns:
        if column.source is Source.ANSWER and column.key not in ANSWERS:
            raise InvalidInput(f"{place}.columns", f"there is no {column.key!r}; there are {', '.join(ANSWERS)}")


def reads(recipe: Recipe) -> set[str]:
    place = f"recipe.{recipe.name}"
    return {name for _, value in options_of(recipe).properties for name in templates.columns_of(place, value)}


@dataclass
class Row:
    """A row on its way through the rounds."""

    tried: Try
    queries: list[tuple[Variant, str]]
    best: Looked | None = None
    done: bool = False

    def add(self, found: Finding) -> None:
        """Keep a match, which ends the row; else keep the first finding that has candidates."""
        if self.best is None or found.outcome is Outcome.MATCHED or self.best.finding.outcome is Outcome.NO_MATCH:
            self.best = Looked(found)
        self.done = found.outcome is Outcome.MATCHED

    def fail(self, error: Failure) -> None:
        if self.best is None or self.best.finding.outcome is not Outcome.AMBIGUOUS:
            self.best = Looked(results.failed(error), error)
        self.done = True


def look_all(recipe: Recipe, tries: Sequence[Try], desk: Desk) -> dict[int, Looked]:
    rows = [Row(each, queries_of(each)) for each in tries]
    try:
        spoken = protocol.opened(desk, options_of(recipe).provider, options_of(recipe).path)
    except Failure as error:
        return {row.tried.item_id: Looked(results.failed(error), error) for row in rows}
    for number in range(max((len(row.queries) for row in rows), default=0)):
        for serving, together in groups(rows, number):
            one_round(recipe, spoken, desk, together, number, serving)
    return {row.tried.item_id: row.best or NO_QUERY for row in rows}


def groups(rows: Sequence[Row], number: int) -> Iterator[tuple[Serving, list[Row]]]:
    """Yield the rows that have a query in this round, grouped by which kept answers they may use."""
    found: dict[Serving, list[Row]] = defaultdict(list)
    for row in rows:
        if not row.done and number < len(row.queries):
            found[row.tried.serving].append(row)
    yield from found.items()


def one_round(recipe: Recipe, spoken: Service, desk: Desk, rows: Sequence[Row], number: int, serving: Serving) -> None:
    options = options_of(recipe)
    questions = {row.tried.item_id: question(options, spoken, row, number) for row in rows}

    def ask(together: list[str]) -> dict[str, Answer]:
        place = f"{spoken.version} {spoken.path}"
        return desk.ask(options.provider, together, spoken.fetch, place=place, batch=options.batch, serving=serving)

    said = answered(ask, list(dict.fromkeys(questions.values())), options.batch)
    for row in rows:
        answer = said[questions[row.tried.item_id]]
        if isinstance(answer, Failure):
            row.fail(answer)
        else:
            row.add(judged(recipe, options, answer, row.queries[number][0]))


def answered(
    ask: Callable[[list[str]], dict[str, Answer]], questions: list[str], batch: int
) -> dict[str, Answer | Failure]:
    """Ask a batch at a time, and return what came of each question. A batch that the service refuses is halved, until
    the question that it cannot take is alone. When the service itself is in trouble, nothing more is asked."""
    found: dict[str, Answer | Failure] = {}
    left = [questions[start : start + batch] for start in range(0, len(questions), batch)]
    while left:
        together = left.pop(0)
        try:
            found |= ask(together)
        except Failure as error:
            if isinstance(error, Transient | Refused):
                found |= dict.fromkeys(chain(together, *left), error)
                break
            if len(together) == 1:
                found[together[0]] = error
            else:
                half = len(together) // 2
                left[:0] = [together[:half], together[half:]]
    return found


def question(options: Options, spoken: Service, row: Row, number: int) -> str:
    properties = []
    for pid, template in options.properties:
        value = templates.filled(template, row.tried.row)
        if value is not None:
            properties.append((pid, value))
    asked = protocol.query(
        spoken.version,
        row.queries[number][1],
        entity_type=options.entity_type,
        limit=options.limit,
        properties=properties,
    )
    return json.dumps(asked, ensure_ascii=False, sort_keys=True)


def judged(recipe: Recipe, options: Options, answer: Answer, variant: Variant) -> Finding:
    origin = Origin(variant.name, options.provider, answer.cached, answer.asked_at)
    candidates = [service.candidate(each, options.score_scale) for each in answer.value or ()]
    found = results.judged(recipe, candidates, origin)
    certain = [each for each in candidates if each.answer["match"]]
    if options.trust and len(certain) == 1 and found.outcome is not Outcome.MATCHED:
        others = tuple(each for each in candidates if each is not certain[0])
        return replace(found, outcome=Outcome.MATCHED, candidates=(certain[0], *others), reason="")
    return found


TYPE = RecipeType(
    name="reconcile",
    asset="reconciliations",
    says="Rows matched by services of the W3C Reconciliation API.",
    check=check,
    look_all=look_all,
    claim=500,
    reads=reads,
)
