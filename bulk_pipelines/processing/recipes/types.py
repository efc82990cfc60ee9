"""What a type of recipe brings: how its rows are looked up, one by one or many by one request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing.envelope import Envelope
from bulk_pipelines.processing.providers.answers import Serving
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes.declaration import Recipe, Variant
from bulk_pipelines.processing.results import Finding


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
    """Which kept answers serve."""
    source: str = ""
    """The address of the job's source, if it is a file or a folder."""


@dataclass(frozen=True)
class Looked:
    """What a try came to, and the error that decides when the next one comes."""

    finding: Finding
    error: Exception | None = None


Look = Callable[[Recipe, Try, Desk], Looked]
LookAll = Callable[[Recipe, Sequence[Try], Desk], Mapping[int, Looked]]


def always(_: Recipe, __: Mapping[str, Provider]) -> None:
    """A recipe whose type needs nothing of the installation can always run."""


@dataclass(frozen=True)
class RecipeType:
    """A type of recipe. It brings `look`, or `look_all` when many rows share a request."""

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
    """And at least, however long they take: as many as share a request."""
    files: bool = False
    """Whether the source may be a folder or a zip archive, each file of which is a row."""
    reconcile: Callable[[Engine, Job], bool] | None = None
    """Does, before the job ends, what can only be done for all its rows together."""
    ready: Callable[[Recipe, Mapping[str, Provider]], None] = always
    """Raises `InvalidInput` if this installation lacks what a job of the recipe needs."""
