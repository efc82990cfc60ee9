"""The preview that a server has answered, in the form in which the command line prints previews."""

from collections.abc import Mapping
from typing import Any

from bulk_pipelines import client
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.report.preview import Mapped, Preview, Rejected
from bulk_pipelines.imports.request import Options


def of(found: client.Preview) -> Preview:
    told: dict[str, Any] = dict(vars(found))
    told["columns"] = tuple(Mapped(**each) for each in found.columns)
    told["rejects"] = tuple(Rejected(**each) for each in found.rejects)
    told["reading"] = Reading.from_params(found.reading)
    return Preview(**told)


def options_of(asked: Mapping[str, Any]) -> Options:
    """Return the options that were given, without those that tell how the file is read."""
    names = ("mode", "format", "compression", "match_on", "on_error")
    return Options(str(asked.get("resource") or asked.get("table")), **{n: asked[n] for n in names if n in asked})
