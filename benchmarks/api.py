"""The HTTP API: the time from sending the users file to the API until it is committed, against an import of the same
local file by the same workers."""

import json
import subprocess
import time
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import measure, user_files
from benchmarks.import_scene import Scene, scene
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines_tests.scenes.api import process

ROWS = 1_000_000
ROUNDS = 5
WORKERS = 2


def over_http(place: Scene, url: str, key: str, source: Path) -> float:
    """Return the seconds from the first byte that is sent to the commit of the last row."""
    place.empty()
    begun = time.perf_counter()
    answer = subprocess.run(
        [
            *("curl", "-fsS", "-X", "POST", "-T", source, f"{url}/v1/imports?resource=users"),
            *("-H", f"Authorization: Bearer {key}", "-H", "Content-Type: text/csv"),
        ],
        check=True,
        capture_output=True,
    )
    place.work(json.loads(answer.stdout)["job_id"], WORKERS)
    seconds = time.perf_counter() - begun
    place.check(ROWS)
    return seconds


def main() -> None:
    with scene() as place, process(place.url, place.folder) as (_, url):
        with transaction(place.engine) as connection:
            _, key = keys.create(connection, "bench", Scope.WRITE, None, Actor("bench", "cli"))
        source = user_files.write(place.folder / "users.csv", user_files.users(ROWS))
        sides = [partial(place.ours, source, ROWS, WORKERS), partial(over_http, place, url, key, source)]
        local, sent = measure.in_turns(sides, ROUNDS)
    measure.show("the local file", local, "s")
    measure.show("over HTTP", sent, "s")
    measure.report("api-import", median(sent), median(local), "s")


if __name__ == "__main__":
    main()
