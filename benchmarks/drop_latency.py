"""The time from a small file's arrival until its rows are committed: `make bench-drop-latency`.

A file of ten users is renamed into the folder that a running installation watches, with Dagster's own daemon, and the
clock runs until its rows are committed. This is done ten times, each at another moment of the daemon's loop. The
benchmark also tells where the time goes: until the file is taken, until its run is launched, until the run begins,
until the rows are there.
"""

import random
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks import user_files
from benchmarks.measure import report
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

FILES = 10
ROWS = 10
PATIENCE = 120.0

STAGES = ("taken", "launched", "begun", "committed")
TIMES = """
SELECT extract(epoch FROM taken.taken_at)::float8, extract(epoch FROM run.create_timestamp AT TIME ZONE 'UTC')::float8,
    run.start_time, extract(epoch FROM min(step.taken_at))::float8
FROM file_drop AS taken
JOIN job USING (job_id)
JOIN dagster.runs AS run ON run.run_id = job.dagster_run_id
JOIN batch_step AS step USING (job_id)
WHERE taken.path = %s AND step.worker <> 'persist'
GROUP BY taken.taken_at, run.create_timestamp, run.start_time
"""


@dataclass(frozen=True)
class Sample:
    seconds: float
    stages: tuple[float, ...]
    """How many seconds each stage took."""


def measured(place: Installation, inbox: Path, number: int, chance: random.Random) -> Sample:
    first = number * ROWS
    text = user_files.HEADER + "".join(user_files.user(each) for each in range(first, first + ROWS))
    name = f"users-{number}.csv"
    (inbox / f"{name}.part").write_text(text)
    time.sleep(chance.uniform(0, 5))  # a file may come at any moment of the daemon's loop, which takes five seconds
    arrived = time.time()
    (inbox / f"{name}.part").rename(inbox / name)
    query = "SELECT count(*) FROM users WHERE id = %s"
    until(lambda: place.rows(query, user_files.identity(first)) == [(1,)], "its rows are committed", PATIENCE)
    committed = time.time()
    until(lambda: bool(place.rows(TIMES, name)), "its run has told when it did what", PATIENCE)
    moments = (arrived, *place.rows(TIMES, name)[0][:-1], committed)
    until(lambda: not list(inbox.glob("users*")), "the file was put away", PATIENCE)
    return Sample(committed - arrived, tuple(after - before for before, after in pairwise(moments)))


def main() -> None:
    chance = random.Random(7)
    with installation.running() as place:
        inbox = place.folder / "inbox"
        inbox.mkdir(exist_ok=True)
        samples = [measured(place, inbox, number, chance) for number in range(FILES)]
    for sample in samples:
        stages = zip(STAGES, sample.stages, strict=True)
        print(f"{sample.seconds:5.1f} s: " + ", ".join(f"{name} +{took:.1f}" for name, took in stages), file=sys.stderr)
    for position, name in enumerate(STAGES):
        print(f"{name}: median +{median(each.stages[position] for each in samples):.1f} s", file=sys.stderr)
    report("drop-latency", median(each.seconds for each in samples), 1.0, "s")


if __name__ == "__main__":
    main()
