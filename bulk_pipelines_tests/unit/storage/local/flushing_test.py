import os
from contextlib import closing
from pathlib import Path

import pytest

from bulk_pipelines.storage.local.flushing import EVERY, Flushing


def test_an_error_of_the_disk_is_told_before_the_file_is_whole() -> None:
    reading, writing = os.pipe()
    try:
        with closing(Flushing(writing)) as flushing:  # a pipe cannot be brought to the disk
            flushing.wrote(EVERY)
            with pytest.raises(OSError, match="Invalid argument"):
                flushing.finish()
            with pytest.raises(OSError, match="Invalid argument"):
                flushing.wrote(EVERY)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_small_file_needs_no_thread(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, closing(Flushing(file.fileno())) as flushing:
        flushing.wrote(file.write(b"x" * (EVERY - 1)))
        assert flushing.thread is None
        flushing.wrote(file.write(b"x"))
        flushing.finish()
        assert flushing.thread is not None
