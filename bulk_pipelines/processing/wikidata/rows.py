"""A row on its way through the tiers: what it says, what was found of it so far, and what it comes to."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bulk_pipelines.errors import Failure
from bulk_pipelines.processing import results
from bulk_pipelines.processing.lookup.looking import queries_of, worst
from bulk_pipelines.processing.providers.answers import Answer
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.forms import Form, stripped
from bulk_pipelines.processing.recipes.types import Looked, Try
from bulk_pipelines.processing.results import Candidate, Finding, Origin, Outcome
from bulk_pipelines.processing.wikidata import judging, questions
from bulk_pipelines.processing.wikidata.entities import Entity
from bulk_pipelines.processing.wikidata.judging import Evidence, World
from bulk_pipelines.processing.wikidata.options import FLOOR, MARGIN, THRESHOLD, Options

NOTHING_ASKED = Looked(Finding(Outcome.SKIPPED, reason="the row has no value for any of the recipe's queries"))
MOST_NAMES, MOST_PHRASES = 6, 5
LONGEST_NAME = 100
CANDIDATES = 10


@dataclass
class Row:
    tried: Try
    names: dict[str, str]
    """The names that the row may go by, each with its variant."""
    acronyms: dict[str, str]
    """Acronyms of the row, each with its variant. They find entities, but say too little to compare them by."""
    identifiers: dict[str, str]
    """The values of the row's identifiers by their properties."""
    evidence: Evidence
    found: dict[str, str] = field(default_factory=dict)
    """The ids that were found, each with the variant that found it; the best first."""
    identified: dict[str, str] = field(default_factory=dict)
    """The ids that have the row's identifier, each with its property."""
    titles: dict[str, str] = field(default_factory=dict)
    """The ids of pages that one of the row's names leads to, each with that name."""
    known: dict[str, Entity] = field(default_factory=dict)
    provider: str = ""
    """Who brought the latest candidates."""
    kept: Answer | None = None
    errors: list[Failure] = field(default_factory=list)
    finding: Finding | None = None

    @property
    def done(self) -> bool:
        return self.finding is not None and self.finding.outcome is Outcome.MATCHED

    def meet(self, items: Iterable[str], variant: str, provider: str, answer: Answer) -> None:
        """Note what an answer found for a variant."""
        for each in items:
            self.found.setdefault(each, variant)
            self.provider, self.kept = provider, answer

    def moved(self, item: str, to: str) -> None:
        """Note that an item was merged into another one."""
        if item != to:
            for found in (self.found, self.identified, self.titles):
                if item in found:
                    found.setdefault(to, found.pop(item))

    def learn(self, entities: Iterable[Entity]) -> None:
        for each in entities:
            known = self.known.get(each.id)
            if known is None or known.claims is None or each.claims is not None:
                self.known[each.id] = each

    def found_by(self, entity: Entity) -> str:
        """Return the variant by which a search found an entity."""
        for name, variant in (*self.names.items(), *self.acronyms.items()):
            if questions.has(entity, [questions.plain(name)]):
                return variant
        return next(iter(self.names.values()))

    def phrases(self) -> list[str]:
        """Return what a search looks for: the names, then their first words, which an entity's name may end with."""
        written = [*self.names, *self.acronyms]
        cut = [" ".join(words[:2]) for name in self.names if len(words := stripped(name).split()) > 2]
        phrases = dict.fromkeys(questions.plain(each)[:LONGEST_NAME] for each in (*written, *cut))
        folded: dict[str, str] = {}
        for each in phrases:
            if each:
                folded.setdefault(each.casefold(), each)
        return list(folded.values())[:MOST_PHRASES]

    def question(self) -> str:
        return json.dumps(sorted(self.phrases()), ensure_ascii=False)

    def judge(self, recipe: Recipe, world: World) -> None:
        """Decide by all that is known now."""
        entities = [self.known[each] for each in self.found if each in self.known][: 3 * CANDIDATES]
        candidates = (
            self.by_identifier() if self.identified else judging.judged(self.evidence, entities, self.titles, world)
        )
        # Ten equally good candidates have a tenth of the probability each: together they are worth a look.
        likely = sum(each.score or 0.0 for each in candidates) >= recipe.floor
        floored = replace(recipe, floor=0.0) if likely else recipe
        self.finding = results.judged(floored, candidates, self.origin(candidates))

    def by_identifier(self) -> list[Candidate]:
        """An entity with the row's identifier is the one; several with it are equally good."""
        return [
            judging.candidate(self.known.get(each, Entity(each, ())), judging.SURE, {"identifier": pid})
            for each, pid in self.identified.items()
        ]

    def origin(self, candidates: list[Candidate]) -> Origin:
        best = candidates[0].id if candidates else ""
        variant = self.identified.get(best) or self.found.get(best, "")
        kept = self.kept
        return Origin(variant, self.provider, kept is not None and kept.cached, None if kept is None else kept.asked_at)

    def looked(self, recipe: Recipe) -> Looked:
        """Return what the try came to. If a provider could not be asked, only a match is sure, and anything else is
        tried again; the last try takes the candidates that there are."""
        if not self.names and not self.identifiers:
            return NOTHING_ASKED
        faults = tuple(dict.fromkeys(str(each) for each in self.errors))
        found = self.finding or Finding(Outcome.NO_MATCH, reason="no candidate was found")
        last = self.tried.attempt >= recipe.attempts and found.outcome is Outcome.AMBIGUOUS
        if self.errors and found.outcome is not Outcome.MATCHED and not last:
            error = worst(self.errors)
            return Looked(results.failed(error, *faults), error)
        return Looked(replace(found, faults=faults))


def of(tried: Try, options: Options) -> Row:
    filled = {pid: templates.filled(text, tried.row) for pid, text in options.identifiers}
    names: dict[str, str] = {}
    acronyms: dict[str, str] = {}
    for variant, query in queries_of(tried)[:MOST_NAMES]:
        (acronyms if variant.form is Form.ACRONYM else names)[query] = variant.name
    properties = ((pid, templates.filled(text, tried.row)) for pid, text in options.properties)
    said = [
        templates.filled(each, tried.row) if each else None
        for each in (options.context, options.country, options.website)
    ]
    evidence = Evidence(
        tuple(names),
        said[0] or "",
        tuple((said[1] or "").replace(";", " ").replace(",", " ").split()),
        (said[2],) if said[2] else (),
        tuple((pid, value) for pid, value in properties if value is not None),
    )
    return Row(tried, names, acronyms, {pid: value for pid, value in filled.items() if value is not None}, evidence)


def standards(recipe: Recipe) -> Recipe:
    """Return the recipe with the matcher's threshold, margin and floor where it names none."""
    return replace(
        recipe,
        threshold=recipe.threshold if "threshold" in recipe.given else THRESHOLD,
        margin=recipe.margin if "margin" in recipe.given else MARGIN,
        floor=recipe.floor if "floor" in recipe.given else FLOOR,
    )
