"""Index data to try things with. They are made in the database, so there is nothing to download, and every machine gets
the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from bulk_pipelines.database import namespaces, queries, samples
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.distribution.request import Input

FIRST_DAY = date(2024, 1, 1)


@dataclass(frozen=True)
class Sample:
    indexes: int = 20
    days: int = 2
    asof_indicators: Sequence[str] = ("CLS", "ADJCLS")
    constituents: int = 50

    def inputs(self) -> list[dict[str, Any]]:
        """Return the inputs of a request for all files of the sample."""
        return [
            Input(f"INDEX{number:05}", FIRST_DAY + timedelta(day), asof).as_json()
            for number in range(1, self.indexes + 1)
            for day in range(self.days)
            for asof in self.asof_indicators
        ]


def fill(connection: Connection, sample: Sample) -> int:
    """Add the rows of the sample that are missing, and return how many that were."""
    values = {
        "first_day": FIRST_DAY,
        "indexes": sample.indexes,
        "days": sample.days,
        "asof_indicators": list(sample.asof_indicators),
        "constituents": sample.constituents,
    }
    samples.make_index_data(connection)
    with namespaces.theirs(connection):
        return connection.execute(queries.text("distribution", "fill_sample"), values).rowcount
