"""Thresholds for a recipe are proposed by what reviewers have decided about its rows."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing import types
from bulk_pipelines.processing.submission import processing_job
from bulk_pipelines.processing.work import recipe_of_job

MOST = 100_000
LEAST = 10
"""How many decided rows must match by thresholds before these are proposed."""
MARGINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
STEPS = 50
"""How many thresholds between 0 and 1 are tried."""

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Thresholds:
    """A threshold and a margin, and what they do to the rows that were decided about."""

    threshold: float
    margin: float
    matched: int
    """How many of the decided rows would match by themselves."""
    right: int
    """How many of these would match what the reviewer chose."""

    @property
    def precision(self) -> float | None:
        return self.right / self.matched if self.matched else None


@dataclass(frozen=True)
class Proposal:
    """The present thresholds, the proposed ones, and what these would change."""

    decisions: int
    present: Thresholds
    proposed: Thresholds | None
    """None if too few decisions agree with any."""
    more: int = 0
    """Rows of the job that nobody decided about and that would match, too."""
    less: int = 0
    """Rows of the job that match now, and would not."""

    def as_json(self) -> dict[str, Any]:
        def shown(each: Thresholds | None) -> dict[str, Any] | None:
            return None if each is None else asdict(each) | {"precision": each.precision}

        return asdict(self) | {"present": shown(self.present), "proposed": shown(self.proposed)}


def propose(pool: Engine, job_key: str, precision: float = 0.95, owner: str | None = None) -> Proposal:
    """Propose a threshold and a margin for the recipe of a job: those by which the most decided rows would match what
    the reviewer chose, if at most the share `1 - precision` of the matches is wrong."""
    if not 0 < precision <= 1:
        raise InvalidInput("precision", f"must be above 0 and at most 1, not {precision:g}")
    with transaction(pool) as connection:
        job = processing_job(connection, job_key, owner)
        recipe = types.find(recipe_of_job(job).type).judging(recipe_of_job(job))
        score, lead, right = decided(connection, recipe.name)
        present = judged(score, lead, right, recipe.threshold, recipe.margin)
        best = best_of(score, lead, right, precision)
        if best is None:
            return Proposal(len(score), present, None)
        values = {"job_id": job.job_id, "threshold": best.threshold, "margin": best.margin}
        row = connection.execute(queries.text("reviews", "rows_over"), values).fetchone()
    assert row is not None, "a count always has a row"
    return Proposal(len(score), present, best, *row)


def decided(connection: Connection, recipe: str) -> tuple[Floats, Floats, Truths]:
    """Return the score and the lead of the best candidate of each decided row, and whether it is right."""
    rows = connection.execute(queries.text("reviews", "judged_scores"), {"recipe": recipe, "most": MOST}).fetchall()
    score, lead, right = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(score, float), np.array(lead, float), np.array(right, bool)


def judged(score: Floats, lead: Floats, right: Truths, threshold: float, margin: float) -> Thresholds:
    over = (score >= threshold) & (lead >= margin)
    return Thresholds(threshold, margin, int(over.sum()), int((over & right).sum()))


def best_of(score: Floats, lead: Floats, right: Truths, precision: float) -> Thresholds | None:
    """Return the thresholds that match the most rows rightly; of equal ones the strictest."""
    tried = [judged(score, lead, right, step / STEPS, margin) for margin in MARGINS for step in range(1, STEPS + 1)]
    good = [each for each in tried if each.matched >= LEAST and each.right >= precision * each.matched]
    return max(good, key=lambda each: (each.right, each.threshold, each.margin), default=None)
