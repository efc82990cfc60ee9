"""The time of landing a thousand dropped files from an FTP server, against `rclone copy`. `make bench-drops-ftp`.

The server is rclone's, on loopback, with 1,000 files of 100 users. `ours` is the number of seconds in which the plan of
one import lands them all: it logs in, asks for each file in the version that was taken, hashes it, watches the limits,
and brings it to the disk. The peer is one `rclone copy` of the same folder with its defaults, which does not hash, and
leaves the disk to the system. The benchmark also tells how many logins each of them took.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks import user_files
from benchmarks.measure import Measure, in_turns, report, show
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.request import ImportRequest, Options, RequestedFile
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.servers import processes
from bulk_pipelines_tests.servers.processes import PASSWORD, RCLONE, USER, LoginServer

FILES, ROWS, ROUNDS = 1_000, 100, 5


def dropped(folder: Path) -> None:
    """Write the files that the server has."""
    for number in range(FILES):
        first = number * ROWS
        text = user_files.HEADER + "".join(user_files.user(each) for each in range(first, first + ROWS))
        (folder / f"users-{number:04}.csv").write_text(text)


def taken(server: LoginServer, name: str) -> ImportRequest:
    """Return the request for an import of all files, each in the version that a look sees now."""
    with locations.folder(f"{server.url}/{name}", server.access) as storage:
        found = sorted(storage.entries(), key=lambda entry: entry.key)
        files = (RequestedFile(storage.url_of(each.key), each.size, version=each.version) for each in found)
        return Options("users").request(tuple(files))


def landing(request: ImportRequest, folder: Path) -> Measure:
    chosen = Settings(home=folder, login_user=USER, login_password=PASSWORD)
    numbers = count(1)
    wanted = [ImportFile(number, file, file.source) for number, file in enumerate(request.files, 1)]

    def measured() -> float:
        job_key = f"J20260110_{next(numbers):06}"
        began = time.perf_counter()
        files = planning.landed(job_key, request, wanted, chosen)
        seconds = time.perf_counter() - began
        assert len(files) == FILES, "all files are landed"
        assert all(file.landed for file in files), "none is left out"
        shutil.rmtree(folder / "landed" / job_key)
        return seconds

    return measured


def copying(server: LoginServer, name: str, folder: Path) -> Measure:
    said = subprocess.run([RCLONE, "obscure", PASSWORD], check=True, capture_output=True, text=True).stdout.strip()
    source = f":ftp,host=127.0.0.1,port={server.port},user={USER},pass={said}:{name}"
    target = folder / "copied"
    command = [str(RCLONE), "copy", source, str(target), "--config", str(folder / "none.conf")]

    def measured() -> float:
        began = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - began
        assert len(list(target.iterdir())) == FILES, "all files are copied"
        shutil.rmtree(target)
        return seconds

    return measured


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as given, processes.ftp(Path(given)) as server:
        name = server.places.pop()
        dropped(server.folder / name)
        request = taken(server, name)
        log = server.folder.parent / "log"

        def logins(side: Measure) -> int:
            before = log.read_text().count(f"USER {USER}")
            side()
            return log.read_text().count(f"USER {USER}") - before

        sides = [landing(request, Path(given)), copying(server, name, Path(given))]
        told = [logins(side) for side in sides]  # this first round does not count
        print(f"logins: ours {told[0]}, rclone copy {told[1]}", file=sys.stderr)
        ours, peer = in_turns(sides, ROUNDS)
        show("landing", ours, "s")
        show("rclone copy", peer, "s")
    report("drops-ftp", median(ours), median(peer), "s")


if __name__ == "__main__":
    main()
