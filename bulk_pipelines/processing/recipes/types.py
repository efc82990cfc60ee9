"""What each type of recipe provides: how its rows are looked up, one by one or many by one request."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing import results
from bulk_pipelines.processing.envelope import Envelope
from bulk_pipelines.processing.providers.answers import Serving
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes.declaration import Recipe, Variant
from bulk_pipelines.processing.results import Candidate, Finding


@dataclass(frozen=True)
class Try:
    """One attempt at one row."""

    item_id: int
    row: Mapping[str, Any]
    attempt: int
    variants: tuple[Variant, ...]
    """The variants of this attempt, in their order."""
    envelope: Envelope
    serving: Serving
    """Which kept answers may be used."""
    source: str = ""
    """The address of the job's source, if it is a file or a folder."""


@dataclass(frozen=True)
class Looked:
    """What a try came to, and the error that decides when the next one comes."""

    finding: Finding
    error: Exception | None = None


Look = Callable[[Recipe, Try, Desk], Looked]
LookAll = Callable[[Recipe, Sequence[Try], Desk], Mapping[int, Looked]]
Without = Callable[[Recipe, Finding, Collection[str]], Finding]
Entries = Callable[[Engine, Recipe, Collection[str]], Mapping[str, Candidate]]


def as_declared(recipe: Recipe) -> Recipe:
    return recipe


def always(_: Recipe, __: Mapping[str, Provider]) -> None:
    """A recipe whose type needs nothing of the installation can always run."""


@dataclass(frozen=True)
class RecipeType:
    """A type of recipe. It has `look`, or `look_all` if many rows share a request."""

    name: str
    asset: str
    says: str
    check: Callable[[Recipe, Mapping[str, Provider]], None]
    """Raises `InvalidInput` if the recipe's own fields are wrong."""
    look: Look | None = None
    look_all: LookAll | None = None
    claim: int = 100
    """How many rows a worker claims at once, at most."""
    claim_least: int = 1
    """How many rows a worker claims at least, however long they take, so that they fill a request that they share."""
    files: bool = False
    """Whether the source may be a folder or a zip archive, each file of which is a row."""
    reconcile: Callable[[Engine, Job], bool] | None = None
    """Runs before a job ends, for work that needs all its rows together."""
    ready: Callable[[Recipe, Mapping[str, Provider]], None] = always
    """Raises `InvalidInput` if this installation lacks what a job of the recipe needs."""
    reads: Callable[[Recipe], set[str]] = lambda _: set()
    """The columns that a row is looked up by, besides those of the variants: rows that say the same in all of them are
    the same to a reviewer."""
    judging: Callable[[Recipe], Recipe] = as_declared
    """Returns the recipe with the threshold and the margin that hold when it names none."""
    without: Without = results.without
    """Judges a finding anew without some candidates, which a reviewer has rejected."""
    entries: Entries | None = None
    """Returns the things of these ids that a row may stand for, if this type can look them up. Without it, reviewers
    choose among a row's candidates."""
    unique: Callable[[Recipe], bool] | None = None
    """Whether a recipe matches no entry with two rows of a job; None if no recipe of this type can ask for that."""
    load: Callable[[Engine, Recipe], None] | None = None
    """Loads what the recipe needs, before the rows of a job are persisted."""
    not_found_attempts: int | None = None
    """How often a row is tried for which nothing is found, unless the recipe says it. None leaves it to the settings.
    """
