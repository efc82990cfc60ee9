"""The declaration of a recipe's reference: a table of the database or a file, and what its columns mean."""

from dataclasses import dataclass
from typing import Self

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.references import Columns
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.request import file_address, quoted
from bulk_pipelines.storage import addresses


@dataclass(frozen=True)
class Reference:
    table: str
    """A table or view; empty if the reference is a file."""
    file: str
    columns: Columns

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        with fields:
            table, file = fields.optional("table"), fields.optional("file")
            if bool(table) == bool(file):
                raise InvalidInput(fields.place, "names one reference: a table, or a file")
            if table:
                quoted(table)
            names = fields.texts("names")
            if not names:
                raise InvalidInput(fields.at("names"), "is missing: the columns with the names of an entry")
            columns = Columns(
                names,
                fields.text("id"),
                fields.text("description", ""),
                fields.texts("types"),
                fields.texts("countries"),
                fields.texts("websites"),
            )
            return cls(table or "", file_address(file) if file else "", columns)

    @property
    def name(self) -> str:
        """The reference as people are shown it."""
        return self.table or addresses.redacted(self.file).rpartition("/")[2]
