"""The time to import a million users, two in a hundred of them bad in one of four ways, against `psql \\copy` of the
clean file."""

from functools import partial
from statistics import median

from benchmarks import measure, user_files
from benchmarks.import_scene import Scene, scene

ROWS = 1_000_000
PERCENT = 2.0
ROUNDS = 5


def ours(place: Scene) -> float:
    """Return the seconds to import the dirty file into a table that already holds some of its rows."""
    place.before = user_files.write(place.folder / "known.csv", user_files.known(ROWS, PERCENT))
    source = user_files.write(place.folder / "dirty.csv", user_files.spoiled(ROWS, PERCENT))
    bad = ROWS * PERCENT / 100
    # A quarter of the bad rows is bad only because the table holds them already, so they are counted there.
    seconds = place.ours(source, round(ROWS - bad * 3 / 4), 2)
    place.before = None
    return seconds


def main() -> None:
    with scene() as place:
        clean = user_files.write(place.folder / "users.csv", user_files.users(ROWS))
        psql, dirty = measure.in_turns([partial(place.psql, clean, ROWS), partial(ours, place)], ROUNDS)
    measure.show("psql \\copy of the clean file", psql, "s")
    measure.show("ours of the dirty file, two workers", dirty, "s")
    measure.report("import-dirty", median(dirty), median(psql), "s")


if __name__ == "__main__":
    main()
