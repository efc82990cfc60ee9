"""The rows of a claim are matched, all at once, with a reference that this process holds in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.processing import results
from bulk_pipelines.processing.lookup.looking import queries_of
from bulk_pipelines.processing.match.options import Options, answers, check, judging, options_of, reads
from bulk_pipelines.processing.matching import scoring
from bulk_pipelines.processing.matching.index import Index, taken
from bulk_pipelines.processing.matching.model import Model, probabilities
from bulk_pipelines.processing.matching.results import Candidate as Found
from bulk_pipelines.processing.matching.scoring import Scored
from bulk_pipelines.processing.matching.variants import LONGEST
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.types import Looked, RecipeType, Try
from bulk_pipelines.processing.references import files, rows
from bulk_pipelines.processing.references.held import HELD
from bulk_pipelines.processing.results import Candidate, Finding, Origin, Outcome

NO_NAME = Looked(Finding(Outcome.SKIPPED, reason="the row has no value for any of the recipe's queries"))


def look_all(recipe: Recipe, tries: Sequence[Try], desk: Desk) -> dict[int, Looked]:
    options = options_of(recipe)
    named = [(each, {text[:LONGEST]: variant for variant, text in queries_of(each)}) for each in tries]
    asked = [(each, names) for each, names in named if names]
    looked = {each.item_id: NO_NAME for each in tries}
    if not asked:
        return looked
    index = HELD.of(desk.pool, options.reference, tries[0].envelope.job_key)
    found = candidates(index, options, [each for each, _ in asked], [tuple(names) for _, names in asked])
    shown = [as_candidates(each) for each in found]
    findings = [judged(recipe, each, Origin("", options.reference.name)) for each in shown]
    values = answers_to(desk.pool, recipe, findings)
    for (tried, names), finding, each in zip(asked, findings, found, strict=True):
        origin = Origin(names[each[0].asked].name if each else "", options.reference.name)
        told = tuple(replace(one, answer=values.get(one.id, {})) for one in finding.candidates)
        looked[tried.item_id] = Looked(replace(finding, candidates=told, origin=origin))
    return looked


def candidates(
    index: Index, options: Options, tries: Sequence[Try], names: Sequence[tuple[str, ...]]
) -> list[tuple[Found, ...]]:
    """Return the candidates of each row, the likeliest first."""
    model = Model.standard()
    queries = [replace(options.row.query(each.row), names=every) for each, every in zip(tries, names, strict=True)]
    scored = scoring.score(index, queries, model)
    if options.itself:
        others = scored.where(not_itself(scored, [templates.text_of(each.row.get(options.itself)) for each in tries]))
        return scoring.ranked(others, scoring.apart(others.strength))
    return scoring.ranked(scored, probabilities(scored.pairs.row, scored.strength))


def not_itself(scored: Scored, own: Sequence[str]) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which pairs are of a row and another entry than the row itself."""
    ids = taken(scored.index.entries["id"], scored.pairs.entry)
    return np.array([own[row] != entry for row, entry in zip(scored.pairs.row.tolist(), ids, strict=True)], np.bool_)


def as_candidates(found: Sequence[Found]) -> list[Candidate]:
    return [Candidate(each.id, each.name, round(each.score, 4), features=spoken(each)) for each in found]


def spoken(found: Found) -> dict[str, object]:
    """Return what speaks for a candidate: the text of the entry that the name is like, and the features that are not
    zero."""
    return {"found": found.found, "origin": found.origin} | {
        name: value for name, value in found.features.items() if value
    }


def answers_to(pool: Engine, recipe: Recipe, findings: Sequence[Finding]) -> dict[str, Mapping[str, object]]:
    """Return what the grid shows of the entries that match, and of those that a reviewer chooses among."""
    columns = answers(recipe)
    wanted = {
        each.id
        for finding in findings
        for each in finding.candidates[: 1 if finding.outcome is Outcome.MATCHED else results.CANDIDATES_KEPT]
    }
    if not columns or not wanted:
        return {}
    found = rows.found(pool, options_of(recipe).reference, wanted, columns)
    return {entry: each.answer for entry, each in found.items()}


def judged(recipe: Recipe, found: Sequence[Candidate], origin: Origin) -> Finding:
    """Decide between candidates. Unlikely ones are kept, because they may win when others are taken or rejected."""
    limits = judging(recipe)
    finding = results.judged(replace(limits, floor=0.0), found, origin, take_first=bool(options_of(recipe).itself))
    best = finding.best
    if finding.outcome is not Outcome.AMBIGUOUS or best is None or (best.score or 0.0) >= limits.floor:
        return finding
    return replace(
        finding, outcome=Outcome.NO_MATCH, reason=f"the best score {best.score:.2f} is below {limits.floor:g}"
    )


def without(recipe: Recipe, finding: Finding, rejected: Collection[str]) -> Finding:
    """Judge a finding anew without some candidates. The probability that they had is shared by those that are left, as
    if the reference did not have them."""
    left = [each for each in finding.candidates if each.id not in rejected]
    gone = sum(each.score or 0.0 for each in finding.candidates if each.id in rejected)
    if len(left) == len(finding.candidates):
        return finding
    share = 1.0 if options_of(recipe).itself else max(1.0 - gone, 1e-6)
    shared = [replace(each, score=round(min((each.score or 0.0) / share, 1.0), 4)) for each in left]
    return replace(judged(recipe, shared, finding.origin or Origin("", "")), faults=finding.faults)


def entries(pool: Engine, recipe: Recipe, ids: Collection[str]) -> Mapping[str, Candidate]:
    return rows.found(pool, options_of(recipe).reference, ids, answers(recipe))


def load(pool: Engine, recipe: Recipe) -> None:
    """Load the reference if it is a file that is new or has changed, and check that it has the recipe's columns."""
    reference = options_of(recipe).reference
    if reference.file:
        files.load(pool, reference, settings.current())
    rows.check(pool, reference, answers(recipe))


TYPE = RecipeType(
    name="match",
    asset="matches",
    says="Rows matched with a reference: a table of the database, or a file.",
    check=check,
    look_all=look_all,
    claim=1_000,
    reads=reads,
    judging=judging,
    without=without,
    entries=entries,
    unique=lambda recipe: options_of(recipe).one_to_one,
    load=load,
    not_found_attempts=1,
)
