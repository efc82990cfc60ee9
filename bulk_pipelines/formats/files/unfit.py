"""The error of a file that does not fit, with what would help."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulk_pipelines.errors import InvalidInput


class Unfit(InvalidInput):
    """The error that a file does not fit as it is read. `remedy` has the options with which it would fit, or might;
    `fields` are the names of its fields, and `columns` tells where each would go, as far as that was found out."""

    def __init__(
        self,
        field: str,
        message: str,
        remedy: Mapping[str, Any],
        fields: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> None:
        super().__init__(field, message)
        self.remedy = dict(remedy)
        self.fields = tuple(fields)
        self.columns = tuple(columns)
