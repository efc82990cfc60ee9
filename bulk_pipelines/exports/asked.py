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
    """A folder, or the address of the file itself. When it is empty, the file goes to the folder that the settings
    name."""

    @classmethod
    def parse(cls, params: Mapping[str, object]) -> Self:
        """Check the parameters of an export: those of its request, and `to` beside them."""
        given = dict(params)
        to = given.pop(target.FIELD, None) or ""
        if not isinstance(to, str):
            raise InvalidInput(target.FIELD, f"{to!r} is not text")
        wanted = request.parse(given)
        return cls(wanted, target.checked(to, wanted))

    def as_params(self) -> dict[str, Any]:
        """Return the parameters that a job keeps, and that `parse` reads again. Code that shows them must redact the
        address."""
        return self.request.params() | {target.FIELD: self.to}
