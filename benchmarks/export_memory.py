"""The peak memory of a process that exports 100 thousand and 5 million users. `make bench-export-memory`.

Every format is exported in a process of its own, at both sizes; `export-memory` is the figure of the format whose peak
grows most.
"""

import subprocess
import sys

from benchmarks.export_scene import users
from benchmarks.measure import report
from bulk_pipelines.exports.request import Format

FEW, MANY = 100_000, 5_000_000

# This prints the high-water mark of the process itself; the one that getrusage tells includes its parent's.
WRITER = """
import sys
from pathlib import Path
from bulk_pipelines.database import pool
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.storage.local.storage import LocalStorage

url, folder, format_, rows = sys.argv[1:]
result = write(pool.connect(url), ExportRequest("users", Format(format_)), LocalStorage(Path(folder)), "users")
assert result.rows == int(rows)
status = Path("/proc/self/status").read_text()
print(int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024)
"""


def peaks(rows: int) -> dict[Format, float]:
    """Return the peak of each format in megabytes, the least of three runs: what a run needs, without what chance
    adds."""
    with users(rows) as (engine, folder):
        url = engine.url.render_as_string(hide_password=False)

        def peak(format_: Format) -> float:
            command = [sys.executable, "-c", WRITER, url, str(folder), format_.value, str(rows)]
            return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        return {format_: min(peak(format_) for _ in range(3)) for format_ in Format}


def main() -> None:
    few, many = peaks(FEW), peaks(MANY)
    for format_ in Format:
        report(f"export-memory-{format_}", many[format_], few[format_], "MB")
    worst = max(Format, key=lambda format_: many[format_] / few[format_])
    report("export-memory", many[worst], few[worst], "MB")


if __name__ == "__main__":
    main()
