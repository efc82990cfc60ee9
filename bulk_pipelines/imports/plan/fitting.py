"""Whether a file fits, told before its import is submitted, so that no job is left behind of one that does not. Neither
a database nor its driver is needed for that."""

import tempfile
from dataclasses import replace
from pathlib import Path

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.context import Mode, matching_key
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.settings import Settings

SMALL = 16 << 20
"""A file of fewer bytes is looked at. A size is known of files of this machine alone."""


def refuse_unfit(options: Options, file: RequestedFile, chosen: Settings) -> None:
    """Raise `InvalidInput` if the file is small and of this machine, and does not fit. With expressions, which
    PostgreSQL evaluates, it is not looked at."""
    if file.size is None or file.size >= SMALL or options.reading.expressions:
        return
    request = options.request((file,))
    with tempfile.TemporaryDirectory(prefix="bulk-look-") as folder:
        with landing.begun(request, replace(chosen, home=Path(folder), landing_url="")) as lands:
            copy = lands.land(file, "look/000001")
            landed = ImportFile(1, file, file.source, copy.url, copy.version, copy.bytes, copy.sha256)
            files = lands.convert(landed, "look/kept")
        looked_at = next((each for each in files if each.landed is not None), files[-1])
        if looked_at.landed is None:
            raise InvalidInput("source", looked_at.note or "the archive holds no file that can be read")
        with landing.opened(looked_at) as source:
            certain = looked_at.requested.layout or looked_at.requested.format
            found = layout.inspect(source, request.declared, request.format, request.reading, certain=certain)
            if request.mode is Mode.UPSERT:
                matching_key(request.declared.narrowed(found.columns), request.match_on, found.columns)
            next(iter(ranges.cut(source, found, 1 << 62)))
            if len(files) == 1:  # of an archive, an option may be meant for another file
                request.reading.refuse_idle(layout.formats_of(source, found))
