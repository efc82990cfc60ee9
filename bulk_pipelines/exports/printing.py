"""An export to standard output. It is streamed, and there is no job for it. When the command ends without an error, the
output is whole; else it is only the beginning of the export."""

from contextlib import closing
from typing import BinaryIO

from sqlalchemy import Engine

from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.streaming import stream


def print_out(pool: Engine, request: ExportRequest, out: BinaryIO) -> None:
    """Write the export to `out`. A reader that stops reading, as `head` does, causes a BrokenPipeError here, which also
    ends the query."""
    with closing(stream(pool, request)) as pieces:
        out.writelines(pieces)
        out.flush()
