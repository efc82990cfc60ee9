"""The time to import 200,000 users from a sheet with two workers, against pandas.read_excel with python-calamine, its
quickest engine, and COPY."""

import io
import time
from functools import partial
from pathlib import Path
from statistics import median

import pandas

from benchmarks import measure, user_files
from benchmarks.import_scene import COLUMNS, Scene, scene
from bulk_pipelines.database.pool import single

ROWS = 200_000
ROUNDS = 5


def sheet(folder: Path) -> Path:
    frame = pandas.read_csv(user_files.write(folder / "users.csv", user_files.users(ROWS)))
    path = folder / "users.xlsx"
    frame.to_excel(path, index=False, engine="xlsxwriter")
    return path


def calamine(place: Scene, source: Path) -> float:
    place.empty()
    begun = time.perf_counter()
    frame = pandas.read_excel(source, engine="calamine")
    text = io.StringIO()
    frame.to_csv(text, index=False)
    command = f"COPY users ({COLUMNS}) FROM STDIN WITH (FORMAT csv, HEADER)"
    with single(place.url) as connection, connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.write(text.getvalue())
    seconds = time.perf_counter() - begun
    place.check(ROWS)
    return seconds


def main() -> None:
    with scene() as place:
        source = sheet(place.folder)
        peer, ours = measure.in_turns([partial(calamine, place, source), partial(place.ours, source, ROWS, 2)], ROUNDS)
    measure.show("pandas with calamine, and COPY", peer, "s")
    measure.show("ours, two workers", ours, "s")
    measure.report("xlsx-in", median(ours), median(peer), "s")


if __name__ == "__main__":
    main()
