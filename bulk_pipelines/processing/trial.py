"""A recipe is tried on a few rows: every call is shown, and no result is stored. The limits of the providers hold."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import Engine

from bulk_pipelines.engine.rate_limit import Limiter
from bulk_pipelines.errors import Failure, InvalidInput
from bulk_pipelines.formats.reading import STANDARD, Reading
from bulk_pipelines.processing import results, types
from bulk_pipelines.processing.envelope import Envelope
from bulk_pipelines.processing.intake import collections, records, shaping, tables
from bulk_pipelines.processing.intake.planning import check_needs, told_of
from bulk_pipelines.processing.intake.rows import UNREADABLE, Row
from bulk_pipelines.processing.providers.answers import Serving
from bulk_pipelines.processing.providers.asking import Asked, Desk
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.library import Library
from bulk_pipelines.processing.recipes.types import Looked, RecipeType, Try
from bulk_pipelines.processing.shown import CallShown, TriedRow
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import compression, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.landing import headed, limits_of

SHOWN = 500


def run(
    pool: Engine,
    found: Library,
    recipe: Recipe,
    source: str,
    count: int,
    chosen: Settings,
    reading: Reading = STANDARD,
) -> Iterator[TriedRow]:
    """Yield what came of each row, with every call."""
    rows = first_rows(pool, recipe, source, count, chosen, reading)
    kind = types.find(recipe.type)
    if kind.load is not None:
        kind.load(pool, recipe)
    calls: list[Asked] = []
    limiters: dict[str, Limiter] = {}
    desk = Desk(
        pool,
        found.providers,
        lambda limit: limiters.setdefault(limit.name, Limiter(pool, limit)),
        stored=False,
        tried=calls.append,
    )
    for number, row in enumerate(rows, 1):
        looked = look(recipe, kind, number, row, desk, source)
        evidence = looked.finding.evidence()
        shown = {key: value for key, value in evidence.items() if value not in (None, [], "", False)}
        yield TriedRow(number, [call_of(each) for each in calls], shown)
        calls.clear()


def lines(tried: TriedRow) -> Iterator[str]:
    """Yield a line for every call, and one for the row."""
    for call in tried.calls:
        said = json.dumps(call.reply, ensure_ascii=False)
        body = "" if call.body is None else " " + json.dumps(call.body, ensure_ascii=False)
        yield f"  {call.provider}: {call.request}{body} -> {said[:SHOWN]} ({call.seconds:.2f} s)"
    yield f"row {tried.row}: {json.dumps(tried.evidence, ensure_ascii=False)}"


def look(recipe: Recipe, kind: RecipeType, number: int, row: Row, desk: Desk, source: str) -> Looked:
    if UNREADABLE in row:
        return Looked(results.Finding(results.Outcome.FAILED, reason=str(row[UNREADABLE])))
    moment = datetime.now(UTC).isoformat()
    envelope = Envelope(
        "try", f"entity.{recipe.type}", moment, 1, 1, 0, number, str(number), f"{1:032x}", f"{number:016x}"
    )
    tried = Try(number, row, 1, recipe.variants_of(1), envelope, Serving(), source)
    try:
        if kind.look is not None:
            return kind.look(recipe, tried, desk)
        assert kind.look_all is not None
        return kind.look_all(recipe, [tried], desk)[number]
    except (Failure, InvalidInput) as error:
        return Looked(results.failed(error), error)


def first_rows(
    pool: Engine, recipe: Recipe, source: str, count: int, chosen: Settings, reading: Reading = STANDARD
) -> list[Row]:
    """Read the first rows straight from the source."""
    if types.find(recipe.type).files and collections.is_collection(source):
        if collections.is_archive(source):
            files = collections.of_archive(source, chosen, reading.member)
        else:
            files = collections.of_folder(source, chosen)
        return [row for _, row in itertools.islice(files, count)]
    told, limits = told_of(recipe, None, reading), limits_of(chosen)
    with locations.Sources(access_of(chosen)) as sources:
        place, key = sources.source(source, "source")
        with place.open(key) as reader:
            head, pieces = headed(iter(reader))
            if tables.is_table(head):
                whole = compression.limited(pieces, limits.largest, None, lambda: 0, "the source")
                rows = tables.unpacked(whole, place.url_of(key), told, limits)
            else:
                kind = compression.decided(head, None, place.url_of(key))
                rows = records.opened(compression.unpacked(pieces, kind, place.url_of(key)), told)
            shaped = shaping.opened(rows, told, pool)
            check_needs(recipe, shaped.columns)
            return list(itertools.islice(shaped, count))


def call_of(asked: Asked) -> CallShown:
    params = "&".join(f"{name}={value}" for name, value in asked.request.params.items())
    request = f"{asked.request.method} {asked.request.path}{'?' + params if params else ''}"
    return CallShown(asked.provider, request, asked.request.body, asked.reply, asked.seconds)
