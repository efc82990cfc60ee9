"""An export to standard output: streamed, and no job. Whole if the command ends well, else the beginning of one."""

from contextlib import closing
from typing import BinaryIO

from sqlalchemy import Engine

from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.streaming import stream


def print_out(pool: Engine, request: ExportRequest, out: BinaryIO) -> None:
    """Whoever stops listening, as `head` does, ends the query too: that is a BrokenPipeError here."""
    with closing(stream(pool, request)) as pieces:
        out.writelines(pieces)
        out.flush()
