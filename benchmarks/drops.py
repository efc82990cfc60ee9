"""The time from the drop of two thousand small files until all their rows are committed: `make bench-drops`.

2,000 files of 100 users are moved into the folder that a running installation watches, with Dagster's own daemon.
`ours` is the number of seconds from the first file's arrival until every row is in the table. The benchmark also tells
how many runs that took.
"""

import sys
import time

from benchmarks import user_files
from benchmarks.measure import report
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

FILES = 2_000
ROWS = 100
PATIENCE = 600.0


def dropped(place: Installation) -> float:
    """Write the files beside the inbox and move them there. Return the time just before the first one came."""
    aside, inbox = place.folder / "aside", place.folder / "inbox"
    aside.mkdir()
    inbox.mkdir(exist_ok=True)
    for number in range(FILES):
        first = number * ROWS
        text = user_files.HEADER + "".join(user_files.user(each) for each in range(first, first + ROWS))
        (aside / f"users-{number}.csv").write_text(text)
    began = time.monotonic()
    for number in range(FILES):
        (aside / f"users-{number}.csv").rename(inbox / f"users-{number}.csv")
    return began


def main() -> None:
    with installation.running() as place:
        began = dropped(place)
        until(lambda: place.rows("SELECT count(*) FROM users") == [(FILES * ROWS,)], "all is committed", PATIENCE)
        seconds = time.monotonic() - began
        done = "SELECT count(*) FROM file_drop WHERE status = 'DONE'"
        until(lambda: place.rows(done) == [(FILES,)], "all files are put away", PATIENCE)
        put_away = time.monotonic() - began
        runs = place.rows("SELECT count(*) FROM dagster.runs WHERE pipeline_name = 'import_users'")[0][0]
        jobs = place.rows("SELECT count(*) FROM job")[0][0]
        print(f"{jobs} jobs, {runs} runs; all files put away after {put_away:.1f} s", file=sys.stderr)
    report("drops-2000-files", seconds, 1.0, "s")


if __name__ == "__main__":
    main()
