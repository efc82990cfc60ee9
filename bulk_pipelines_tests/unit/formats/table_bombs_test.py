"""Parquet and Arrow files of a few bytes whose values would fill the memory are refused before they do."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

ROWS = 65_536
LONG = "x" * 40_000
MOST = 600 << 20
"""How much memory reading may take. All rows of these files would take some gigabytes."""
READ = """
import sys
from pathlib import Path
from bulk_pipelines.errors import BulkError
from bulk_pipelines.formats import parquet_rows, rows
from bulk_pipelines.storage.compression import limited

path = Path(sys.argv[1])
read = parquet_rows.parquet if path.suffix == ".parquet" else parquet_rows.arrow
try:
    with path.open("rb") as file:
        for piece in limited(rows.written(*read(file, 200.0)), 1 << 36, 200.0, lambda: path.stat().st_size, "it"):
            pass
except BulkError as error:
    print(error)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) << 10)
"""


def one_text(texts: int = ROWS) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * texts, pa.int32()), pa.array([LONG]))


def lists(values: Any, each: int = 1) -> Any:
    return pa.ListArray.from_arrays(pa.array(range(0, len(values) + 1, each), pa.int32()), values)


def one_list(values: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def structs(values: Any) -> Any:
    return pa.StructArray.from_arrays([values], ["k"])


def maps() -> Any:
    keys = pa.array(range(ROWS))
    return pa.MapArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), keys, one_text())  # type: ignore[call-overload]


def runs(length: int) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array([length], pa.int64()), pa.array([LONG]))


def views() -> Any:
    starts, lengths = pa.array([0] * ROWS, pa.int32()), pa.array([ROWS] * ROWS, pa.int32())
    made: Any = pa.ListViewArray
    return made.from_arrays(starts, lengths, pa.array(range(ROWS)))


def zeros(count: int) -> Any:
    return pa.array(np.zeros(count, np.int32))


PARQUET: dict[str, Callable[[], Any]] = {
    "texts": one_text,
    "lists": lambda: lists(one_text()),
    "a list": lambda: one_list(one_text()),
    "structures": lambda: structs(one_text()),
    "lists of structures": lambda: lists(structs(one_text())),
    "maps": maps,
    "a list of numbers": lambda: one_list(zeros(40_000_000)),
}
ARROW: dict[str, Callable[[], Any]] = {
    "dictionary": one_text,
    "lists of a dictionary": lambda: lists(one_text()),
    "a list of a dictionary": lambda: one_list(one_text()),
    "structures of a dictionary": lambda: structs(one_text()),
    "runs": lambda: runs(2_000_000_000),
    "a list of runs": lambda: one_list(runs(2_000_000_000)),
    "rows without values": lambda: pa.nulls(2_000_000_000),
    "a list without values": lambda: one_list(pa.nulls(2_000_000_000)),
    "views of one list": views,
    "zeros": lambda: zeros(40_000_000),
}


@pytest.mark.parametrize("name", PARQUET)
def test_a_parquet_file_is_no_bomb(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.parquet"
    table = pa.table({"field": PARQUET[name]()})
    pyarrow.parquet.write_table(table, path, store_schema=False, compression="zstd")
    refused(path)


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_an_arrow_file_is_no_bomb(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "bomb.arrow"
    batch = pa.RecordBatch.from_arrays([ARROW[name]()], ["field"])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    opened = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with opened(str(path), batch.schema, options=options) as writer:
        writer.write_batch(batch)
    refused(path)


def refused(path: Path) -> None:
    assert path.stat().st_size < 2 << 20
    ended = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True)
    told, peak = ended.stdout.splitlines()
    assert "unpack" in told or "encoded elements" in told
    assert int(peak) < MOST
