"""The rows of a claim go through tiers. Requests that many rows share come first, and only rows without a match go on.

Identifiers and exact names are asked by SPARQL, then titles with their redirects, fifty at a time; then the names of
many rows by one search; at last claims, for what is still undecided. A second try searches each row alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from bulk_pipelines.errors import Failure
from bulk_pipelines.processing.providers.answers import Answer, Serving
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.types import Looked, RecipeType, Try
from bulk_pipelines.processing.wikidata import options, questions, rows
from bulk_pipelines.processing.wikidata.asking import Asking, Said, groups_of, packed
from bulk_pipelines.processing.wikidata.entities import Entity
from bulk_pipelines.processing.wikidata.judging import World
from bulk_pipelines.processing.wikidata.options import Options, options_of
from bulk_pipelines.processing.wikidata.rows import Row

IDS, TITLES, NAMES, IDENTIFIERS = 50, 50, 200, 200
"""How many questions share a request."""
FOUND_LOOKED_AT = 5
LONGEST_TITLE = 255
NOT_IN_TITLES = set("#<>[]{}|_\n\t")


def look_all(recipe: Recipe, tries: Sequence[Try], desk: Desk) -> dict[int, Looked]:
    chosen = options_of(recipe)
    recipe = rows.standards(recipe)
    together = [rows.of(each, chosen) for each in tries]
    at_once = max(desk.provider(name).at_once for name in options.used(chosen))
    with ThreadPoolExecutor(at_once, "tier") as threads:
        for serving, some in served(together):
            worked(recipe, Asking(desk, chosen, serving, threads), some)
    return {row.tried.item_id: row.looked(recipe) for row in together}


def served(found: Iterable[Row]) -> Iterator[tuple[Serving, list[Row]]]:
    """Yield the rows, grouped by which kept answers they may use."""
    groups: dict[Serving, list[Row]] = {}
    for row in found:
        groups.setdefault(row.tried.serving, []).append(row)
    yield from groups.items()


def worked(recipe: Recipe, asking: Asking, some: list[Row]) -> None:
    world = world_of(asking)
    for tier in (identifiers, labels, titles):
        left = [row for row in some if not row.done and not row.identified]
        if left and tier(asking, left):
            learn(asking, [row for row in left if row.found or row.identified], claims=bool(asking.options.wanted))
            judge(recipe, world, left)
    left = [row for row in some if not row.done and row.names and not row.identified]
    search_together(asking, left)
    search_alone(asking, [row for row in left if row.tried.attempt > 1 and not row.found])
    judge(recipe, world, left)
    undecided = [row for row in left if row.found and worth_claims(asking.options, row)]
    learn(asking, undecided, claims=True)
    judge(recipe, world, undecided)
    if asking.options.shown:
        learn(asking, [row for row in some if row.done and lacks_claims(row)], claims=True, most=1)
        judge(recipe, world, [row for row in some if row.done])


def worth_claims(chosen: Options, row: Row) -> bool:
    """Whether claims may help to decide about a row: it has no match, or one that only claims can confirm."""
    if not row.done:
        return True
    return chosen.judged_by_claims and lacks_claims(row)


def lacks_claims(row: Row) -> bool:
    best = row.finding.best if row.finding is not None else None
    return best is not None and best.id in row.known and row.known[best.id].claims is None


def judge(recipe: Recipe, world: World, some: Iterable[Row]) -> None:
    for row in some:
        if row.known or row.identified:
            row.judge(recipe, world)


def world_of(asking: Asking) -> World:
    """Ask for classes and countries, if the recipe uses them. Without an answer, only the classes that the recipe names
    count for an entity, and none counts against it."""
    chosen = asking.options
    classes, whole, codes = frozenset(chosen.types) or None, not chosen.types, None
    if chosen.types and chosen.sparql:
        said = asking.ask(chosen.sparql, [[each] for each in chosen.types], questions.subclasses, "subclasses")
        values = [each.value for each in said.values() if isinstance(each, Answer)]
        classes = frozenset(chosen.types).union(*(each or [] for each in values))
        whole = len(values) == len(said)
    if chosen.country and chosen.sparql:
        answer = asking.ask(chosen.sparql, [["countries"]], questions.countries, "countries")["countries"]
        codes = answer.value if isinstance(answer, Answer) else None
    return World(classes, whole, codes)


def identifiers(asking: Asking, some: list[Row]) -> bool:
    chosen, found = asking.options, False
    for pid, _ in chosen.identifiers:
        values = list(dict.fromkeys(row.identifiers[pid] for row in some if pid in row.identifiers))
        said = asking.ask(
            chosen.sparql, list(groups_of(values, IDENTIFIERS)), questions.identified(pid), f"identifier {pid}"
        )
        for row in some:
            if pid in row.identifiers:
                for each in items(row, said[row.identifiers[pid]]):
                    row.identified.setdefault(each, pid)
                    row.meet([each], pid, chosen.sparql, answered(said[row.identifiers[pid]]))
                    found = True
    return found


def labels(asking: Asking, some: list[Row]) -> bool:
    chosen = asking.options
    if not chosen.sparql:
        return False
    asked = {id(row): spelled(row) for row in some}
    every = list(dict.fromkeys(name for each in asked.values() for name in each))
    place = f"labels {','.join(chosen.languages)}"
    said = asking.ask(chosen.sparql, list(groups_of(every, NAMES)), questions.labels(chosen.languages), place)
    return meet(some, asked, said, chosen.sparql)


def spelled(row: Row) -> dict[str, str]:
    """Return the names as labels may be written: as they are, and without capitals throughout."""
    found = dict(row.names)
    for name, variant in row.names.items():
        if name.isupper() or name.islower():
            found.setdefault(name.title(), variant)
    return {name: variant for name, variant in found.items() if len(name) <= LONGEST_TITLE}


def titles(asking: Asking, some: list[Row]) -> bool:
    asked = {id(row): {n: v for n, v in row.names.items() if is_title(n)} for row in some}
    every = list(dict.fromkeys(name for each in asked.values() for name in each))
    found = False
    for wiki in asking.options.titles:
        said = asking.ask(wiki, list(groups_of(every, TITLES)), questions.titles, "titles")
        found = meet(some, asked, said, wiki, titled=True) or found
    return found


def is_title(name: str) -> bool:
    return len(name.encode()) <= LONGEST_TITLE and NOT_IN_TITLES.isdisjoint(name)


def meet(
    some: list[Row], asked: Mapping[int, Mapping[str, str]], said: Said, provider: str, *, titled: bool = False
) -> bool:
    found = False
    for row in some:
        for name, variant in asked[id(row)].items():
            if ids := items(row, said[name]):
                row.meet(ids, variant, provider, answered(said[name]))
                if titled:
                    row.titles.setdefault(ids[0], name)
                found = True
    return found


def items(row: Row, said: Answer | Failure) -> list[str]:
    """Return the ids of an answer; note what kept it from coming."""
    if isinstance(said, Failure):
        row.errors.append(said)
        return []
    return [said.value] if isinstance(said.value, str) else list(said.value or [])


def answered(said: Answer | Failure) -> Answer:
    assert isinstance(said, Answer), "a failure brings nothing"
    return said


def search_together(asking: Asking, some: list[Row]) -> None:
    asked = list(dict.fromkeys(row.question() for row in some if row.phrases()))
    fetch = questions.together(asking.options.languages[0])
    said = asking.ask(asking.options.provider, list(packed(asked)), fetch, f"together {asking.options.languages[0]}")
    take(asking, [(row, row.question()) for row in some if row.phrases()], said)


def search_alone(asking: Asking, some: list[Row]) -> None:
    asked = [
        (row, name) for row in some if (name := questions.plain(next(iter(row.names)))[: questions.LONGEST_SEARCH])
    ]
    groups = [[name] for name in dict.fromkeys(name for _, name in asked)]
    fetch = questions.alone(asking.options.languages[0])
    take(asking, asked, asking.ask(asking.options.provider, groups, fetch, f"alone {asking.options.languages[0]}"))


def take(asking: Asking, asked: Iterable[tuple[Row, str]], said: Said) -> None:
    for row, question in asked:
        answer = said[question]
        if isinstance(answer, Failure):
            row.errors.append(answer)
            continue
        found = [Entity.of_kept(each) for each in answer.value or []]
        for each in found:
            row.meet([each.id], row.found_by(each), asking.options.provider, answer)
        row.learn(found)


def learn(asking: Asking, some: Sequence[Row], *, claims: bool, most: int = FOUND_LOOKED_AT) -> None:
    """Ask for the entities that the rows have found, the best first, if they are not known well enough."""
    chosen = asking.options
    wanted = {id(row): [each for each in best(row)[:most] if needs(row, each, claims)] for row in some}
    every = list(dict.fromkeys(each for ids in wanted.values() for each in ids))
    place = f"entities {','.join(chosen.languages)} {','.join(chosen.wanted)}"
    said = asking.ask(
        chosen.provider, list(groups_of(every, IDS)), questions.of_entities(chosen.languages, chosen.wanted), place
    )
    for row in some:
        for each in wanted[id(row)]:
            answer = said[each]
            if isinstance(answer, Failure):
                row.errors.append(answer)
            elif answer.value is not None:
                entity = Entity.of_kept(answer.value)
                row.moved(each, entity.id)
                row.learn([entity])


def best(row: Row) -> list[str]:
    """Return the ids that were found, those first that were judged to be likely."""
    ranked = [each.id for each in row.finding.candidates] if row.finding is not None else []
    return list(dict.fromkeys([*row.identified, *ranked, *row.found]))


def needs(row: Row, item: str, claims: bool) -> bool:
    known = row.known.get(item)
    return known is None or (claims and known.claims is None)


TYPE = RecipeType(
    name="wikidata",
    asset="entities",
    says="Rows matched with the entities of Wikidata.",
    check=options.check,
    look_all=look_all,
    claim=1_000,
    claim_least=400,
    ready=options.ready,
)
