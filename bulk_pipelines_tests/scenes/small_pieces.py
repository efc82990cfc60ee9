"""Reading a file as an import does, but cut anywhere and in pieces of any size."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from bulk_pipelines.imports.plan.cut import ranges as cutting
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.blocks import Block
from bulk_pipelines_tests.scenes.import_runs import Pace


@contextmanager
def small_steps(size: int) -> Iterator[None]:
    """Read and cut in steps of so many bytes within the block, so that every border is met."""
    with patch.object(cutting, "BLOCK", size), patch.object(blocks, "LEAST_READ", size):
        yield


def pieces(path: Path, found: Layout, size: tuple[int, int, int]) -> Iterator[Block]:
    range_bytes, rows, step = size
    with LocalFile(path) as source, small_steps(step):
        ranges = cutting.cut(source, found, range_bytes)
        assert [each.start for each in ranges[1:]] == [each.stop for each in ranges[:-1]]
        for piece in ranges:
            yield from blocks.read(source, found, piece, Pace(rows), 1 << 20)
