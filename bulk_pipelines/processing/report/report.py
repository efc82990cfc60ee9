"""What people are shown of a job: outcomes, providers, how much was kept, scores, and the first rows of the grid."""

import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.processing.providers import requests_made
from bulk_pipelines.processing.providers.requests_made import PUT_OFF
from bulk_pipelines.processing.results import Outcome

OUTCOME_OF = {
    ItemState.NOT_FOUND: Outcome.NO_MATCH,
    ItemState.SKIPPED: Outcome.SKIPPED,
    ItemState.DLQ: Outcome.FAILED,
}
OPEN = "open"
BINS = 20


@dataclass(frozen=True)
class Counts:
    outcomes: Counter[str] = field(default_factory=Counter)
    providers: Counter[str] = field(default_factory=Counter)
    """The rows that each provider's answers decided."""
    answered: int = 0
    kept: int = 0
    """How many of these rows were decided by an answer that had been kept."""
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The requests to each provider, by the status that was answered."""
    waited_seconds: float = 0.0
    """How long requests waited for their turn."""
    throttled_seconds: float = 0.0
    """The seconds in which nobody could ask a provider because of its answers."""

    @property
    def rows(self) -> int:
        return sum(self.outcomes.values())

    def share(self, outcome: Outcome) -> float:
        """Return the share of rows with this outcome among those that are done."""
        done = self.rows - self.outcomes[OPEN] - self.outcomes[Outcome.THROTTLED]
        return self.outcomes[outcome] / done if done else 0.0

    @property
    def kept_share(self) -> float:
        return self.kept / self.answered if self.answered else 0.0

    @property
    def requests_made(self) -> int:
        """How many requests were made. What was put off was never sent."""
        each = (count for made in self.requests.values() for status, count in made.items() if status != PUT_OFF)
        return sum(each)

    def as_json(self) -> dict[str, Any]:
        return {
            "outcomes": dict(self.outcomes),
            "providers": dict(self.providers),
            "answered": self.answered,
            "kept": self.kept,
            "requests": {provider: dict(each) for provider, each in self.requests.items()},
            "waited_seconds": round(self.waited_seconds, 3),
            "throttled_seconds": round(self.throttled_seconds, 3),
        }


def counts(connection: Connection, job_id: int) -> Counts:
    outcomes: Counter[str] = Counter()
    providers: Counter[str] = Counter()
    answered = kept = 0
    for state, said, provider, cached, count in connection.execute(
        queries.text("processing", "outcome_counts"), {"job_id": job_id}
    ):
        outcomes[outcome_of(ItemState(state), said)] += count
        if provider is not None and state in (ItemState.SUCCEEDED, ItemState.NOT_FOUND):
            providers[provider] += count
            answered += count
            kept += count if cached else 0
    made = requests_made.of_job(connection, job_id)
    return Counts(
        outcomes,
        providers,
        answered,
        kept,
        requests_made.by_provider(made),
        sum(each.waited_seconds for each in made),
        sum(each.throttled_seconds for each in made),
    )


def outcome_of(state: ItemState, said: str | None) -> str:
    """Return the outcome of an item in this state; `said` is what its result says."""
    if state in OUTCOME_OF:
        return OUTCOME_OF[state].value
    if state is ItemState.SUCCEEDED:
        return said or Outcome.MATCHED.value
    if state is ItemState.CANCELLED:
        return "cancelled"
    return Outcome.THROTTLED.value if said == Outcome.THROTTLED.value else OPEN


def scores(connection: Connection, job_id: int) -> list[int]:
    """Return how many rows have a score in each twentieth between 0 and 1."""
    found = dict(connection.execute(queries.text("processing", "score_counts"), {"job_id": job_id}).fetchall())
    return [found.get(number, 0) for number in range(BINS)]


def picture(bins: list[int]) -> str:
    """Draw the scores as an SVG in Markdown, one bar for each twentieth."""
    most = max(bins, default=0)
    if not most:
        return ""
    bars = "".join(
        f'<rect x="{20 + 24 * number}" y="{110 - 100 * count / most:.1f}" width="20" height="{100 * count / most:.1f}" '
        f'fill="#4a90d9"><title>{number / BINS:.2f}: {count}</title></rect>'
        for number, count in enumerate(bins)
    )
    labels = "".join(
        f'<text x="{20 + 480 * share:.0f}" y="126" font-size="11">{share:g}</text>' for share in (0, 0.25, 0.5, 0.75, 1)
    )
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="520" height="132">{bars}{labels}</svg>'
    encoded = base64.b64encode(svg.encode()).decode()
    return f"![rows by score](data:image/svg+xml;base64,{encoded})"
