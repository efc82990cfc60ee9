"""`make demo`: the whole story on one machine, with figures, in the installation that `make dev` opens.

Files of users, articles and comments, some of them bad, are dropped into a folder, an S3 bucket and an FTP server; the
sensors take them. Then tables are exported, and files are distributed, of which one has no data at first.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bulk_pipelines import settings
from bulk_pipelines.database import address, pool
from bulk_pipelines.errors import BulkError
from bulk_pipelines.output import table
from bulk_pipelines.settings import addresses
from bulk_pipelines_tests.demo import story
from bulk_pipelines_tests.demo.story import Line, Story
from bulk_pipelines_tests.scenes import drops as drop_scene
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.drops import box_of, folder_box
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.servers import processes

CHAPTERS = [
    (
        "Dropping users, articles and comments, some bad, into a folder, an S3 bucket and an FTP server",
        story.drop,
    ),
    ("Exporting tables", story.export),
    ("Distributing 201 files, one of them without data; then its data comes", story.distribute),
]


@contextmanager
def set_up() -> Iterator[Story]:
    """Provide the setting of the story, all on loopback: an S3 and an FTP server, which last as long as the story, and
    Dagster with its daemon."""
    chosen = settings.current()
    with TemporaryDirectory(prefix="bulk-demo-") as name:
        place = Path(name)
        for each in ("s3", "ftp"):
            (place / each).mkdir()
        with processes.s3(place / "s3") as s3, processes.ftp(place / "ftp") as ftp:
            boxes = [
                folder_box(chosen.home / "inbox", "inbox"),
                box_of("bucket", s3.bucket()),
                box_of("ftp", ftp.place()),
            ]
            drops = drop_scene.write_drops_file(place / "drops.toml", boxes, after="move", failed_folder="failed")
            variables = drop_scene.settings_of(s3, ftp) | {"BULK_DROPS_FILE": str(drops)}
            here = Installation(chosen.home, chosen.ui_port, variables)
            label = datetime.now(UTC).strftime("%m%d%H%M%S")
            with address.held(chosen) as url, installation.started(here) as process:
                yield Story(here, pool.connect(url, application="demo"), boxes, label, place)
                process.send_signal(signal.SIGINT)
                process.communicate()


def main() -> None:
    began, chosen = time.monotonic(), settings.current()
    print("Starting the database, an S3 and an FTP server, and Dagster with its daemon", flush=True)
    lines: list[Line] = []
    with set_up() as told:
        for heading, chapter in CHAPTERS:
            print(heading, flush=True)
            lines += chapter(told)
    print("\n".join(["", *table(("what", "came of it", "seconds", "where to look"), lines), ""]))
    print(f"That took {time.monotonic() - began:.0f} seconds. `make dev` shows what is there now, in two ways:")
    print(f"the console, for jobs, rejects and files, at {addresses.console(chosen)}/, and Dagster's UI, for runs.")


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, BulkError) as error:
        sys.exit(f"The demo stopped: {error}")
