"""How many records went which way."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counts:
    """What became of records. `read` is the sum of those behind it, without `unprocessed`: of these records nothing was
    decided, so that each record of the files counts once, in one of them."""

    read: int = 0
    loaded: int = 0
    rejected: int = 0
    superseded: int = 0
    """Upsert: a later record of the file has the same key."""
    valid: int = 0
    """Validation: would be loaded."""
    waiting: int = 0
    """Upsert and validation: read, and to be decided when every range has been read."""
    unprocessed: int = 0
    """Never reached, or read and given up before it was decided."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)})
