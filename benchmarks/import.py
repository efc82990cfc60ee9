"""The time to import a million clean users: our whole load, with one worker and with two, against `psql \\copy` of the
same file."""

from functools import partial
from statistics import median

from benchmarks import measure, user_files
from benchmarks.import_scene import scene

ROWS = 1_000_000
ROUNDS = 5


def main() -> None:
    with scene() as place:
        source = user_files.write(place.folder / "users.csv", user_files.users(ROWS))
        sides = [
            partial(place.psql, source, ROWS),
            partial(place.ours, source, ROWS, 1),
            partial(place.ours, source, ROWS, 2),
        ]
        psql, one, two = measure.in_turns(sides, ROUNDS)
    measure.show("psql \\copy", psql, "s")
    measure.show("ours, one worker", one, "s")
    measure.show("ours, two workers", two, "s")
    measure.report("import-1-worker", median(one), median(psql), "s")
    measure.report("import-2-workers", median(two), median(psql), "s")


if __name__ == "__main__":
    main()
