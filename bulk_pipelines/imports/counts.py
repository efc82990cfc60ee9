"""How many records went which way."""

from dataclasses import dataclass, fields

from bulk_pipelines.counted import counted


def records_were(number: int) -> str:
    """Return the beginning of a sentence about so many records."""
    return counted(number, "record was", "records were")


@dataclass(frozen=True)
class Counts:
    """How many records of the files came to which end.

    `read` is the sum of the counts below it, except `unprocessed`. Unprocessed records are not counted as read, because
    nothing was decided about them. So each record of the files counts once, in exactly one of the counts below `read`.
    The last two counts are parts of `loaded`.
    """

    read: int = 0
    loaded: int = 0
    rejected: int = 0
    superseded: int = 0
    """Records of an upsert that a later record of the file with the same key replaced."""
    valid: int = 0
    """Records that an import which only validates would have loaded."""
    waiting: int = 0
    """Records of an upsert or a validation that were read, and are decided when every range has been read."""
    unprocessed: int = 0
    """Records that were never reached, or were read and then given up before anything was decided about them."""
    updated: int = 0
    """Loaded records of an upsert whose row was there and said something else."""
    unchanged: int = 0
    """Loaded records of an upsert whose row was there and said the same."""

    @property
    def inserted(self) -> int:
        """Loaded records whose row is new."""
        return self.loaded - self.updated - self.unchanged

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)})
