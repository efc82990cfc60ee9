"""An export as a job keeps it: what is asked for, and where it is to go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import request
from bulk_pipelines.exports.publish import target
from bulk_pipelines.exports.request import ExportRequest


@dataclass(frozen=True)
class Asked:
    request: ExportRequest
    to: str = ""
    """A folder, or the file's own address; empty: the folder that the settings name."""

    @classmethod
    def parse(cls, params: Mapping[str, object]) -> Self:
        """The parameters of a request, and `to` beside them."""
        given = dict(params)
        to = given.pop(target.FIELD, None) or ""
        if not isinstance(to, str):
            raise InvalidInput(target.FIELD, f"{to!r} is not text")
        wanted = request.parse(given)
        return cls(wanted, target.checked(to, wanted))

    def as_params(self) -> dict[str, Any]:
        """As a job keeps it; `parse` takes it back. Whoever shows it redacts the address."""
        return self.request.params() | {target.FIELD: self.to}
