"""What is compared: the entries of a reference, and the queries that rows become."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a reference knows. The first of its names is the one that is shown."""

    id: str
    names: tuple[str, ...]
    description: str = ""
    types: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    websites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """What a row says of the thing that it names. All its names are tried; the best one counts."""

    names: tuple[str, ...]
    description: str = ""
    types: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    websites: tuple[str, ...] = ()
