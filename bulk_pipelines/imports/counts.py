"""How many records went which way."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counts:
    """What became of records. At the end of an import `read` is the sum of all others, and nothing is waiting."""

    read: int = 0
    loaded: int = 0
    rejected: int = 0
    superseded: int = 0
    """Upsert: a later record of the file has the same key."""
    valid: int = 0
    """Validation: would be loaded."""
    waiting: int = 0
    """Upsert and validation: read, to be decided at the end."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)})
