"""The preview that a server has answered, in the form in which the command line prints previews."""

from typing import Any

from bulk_pipelines import client
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.report.preview import Mapped, Preview, Rejected


def of(found: client.Preview) -> Preview:
    told: dict[str, Any] = dict(vars(found))
    told["columns"] = tuple(Mapped(**each) for each in found.columns)
    told["rejects"] = tuple(Rejected(**each) for each in found.rejects)
    told["reading"] = Reading.from_params(found.reading)
    return Preview(**told)
