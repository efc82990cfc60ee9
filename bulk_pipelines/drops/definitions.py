"""Sensors for dropped files. Each tick looks at its sources and submits imports of what is complete; the relay launches
them."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger, look, put_away, sources
from bulk_pipelines.drops.look import Doors
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import BulkError
from bulk_pipelines.orchestration.pipeline import Launchable
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage

SECONDS_BETWEEN = 1
"""Seconds between two ticks at least. Dagster's daemon looks every five seconds, and with an interval of five it would
skip every second look."""
TICK_SECONDS = 30.0
"""After so many seconds a tick begins with no further source, so that with the time of its last source it stays below
the minute that Dagster gives it."""

SCHEMES = {
    "folder_drops": ({"file"}, "Takes complete files that were dropped into folders, each version once."),
    "s3_drops": ({"s3"}, "Takes complete files that were dropped into S3 buckets, each version once."),
    "ftp_drops": ({"ftp", "ftps", "ftpes", "sftp"}, "Takes complete files from FTP, FTPS and SFTP servers, each once."),
}


def drops(doors: Doors, launched: Sequence[Launchable], file: Path | None = None) -> dg.Definitions:
    """Make the sensors. `launched` has the jobs that work dropped files. `file` configures the sources; without it, the
    settings name one."""
    return dg.Definitions(
        sensors=[
            drop_sensor(name, schemes, description, doors, launched, file)
            for name, (schemes, description) in SCHEMES.items()
        ]
    )


def drop_sensor(
    name: str,
    schemes: set[str],
    description: str,
    doors: Doors,
    launched: Sequence[Launchable],
    file: Path | None,
) -> dg.SensorDefinition:
    # The sensor names the jobs only for the UI: its tick submits them, and the relay launches them.
    @dg.sensor(
        name=name,
        jobs=[each.job for each in launched],
        minimum_interval_seconds=SECONDS_BETWEEN,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=description,
    )
    def sensor(context: dg.SensorEvaluationContext, database: Database) -> dg.SensorResult | dg.SkipReason:
        chosen = settings.current()
        configured = file or chosen.drops_file
        # A mistake in the TOML file fails the tick, because a skipped tick looks like all others that found nothing.
        found = sources.load(configured, sorted(doors.references), chosen.home / "inbox")
        own = [source for source in found if source.scheme in schemes]
        if not own:
            missing = f"{configured} does not exist, the inbox is the only one"
            why = f"{configured.name} names none" if configured.exists() else missing
            return dg.SkipReason(f"no source of this kind: {why}")
        deadline = time.monotonic() + TICK_SECONDS
        with transaction(database.engine) as connection:
            turns = ledger.longest_unseen_first(connection, [source.name for source in own])
        told = []
        for source in sorted(own, key=lambda each: turns.index(each.name)):
            left = deadline - time.monotonic()
            if left > 0:
                told.append(tick(context, database.engine, source, chosen, doors, left))
            else:
                told.append(
                    Told(f"{source.name}: the others took all the time, it comes first in the next tick", False)
                )
        news = "; ".join(each.said for each in told if each.is_news)
        # Only people read the cursor: it shows what was taken last, which is hard to find among thousands of ticks.
        shown = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {news}" if news else context.cursor
        return dg.SensorResult(skip_reason="; ".join(each.said for each in told), cursor=shown)

    return sensor


class Told(NamedTuple):
    """What a tick says of one source, and whether something happened."""

    said: str
    is_news: bool


def tick(
    context: dg.SensorEvaluationContext,
    pool: Engine,
    source: DropSource,
    chosen: settings.Settings,
    doors: Doors,
    seconds: float,
) -> Told:
    """Look at one source, and put away its files whose jobs are over."""
    opened = opener(source, chosen)
    looked = look.look(pool, source, opened, doors, min(seconds, look.LOOK_SECONDS))
    happened = bool(looked.jobs or looked.stalled or looked.vanished)
    if happened:
        context.log.info(str(looked))
    if looked.skipped:
        return Told(str(looked), happened)
    try:
        cleared = put_away.clear_up(pool, source, opened)
    except BulkError as error:
        with transaction(pool) as connection:
            ledger.note_answer(connection, source.name, str(error), look.FIRST_DELAY)
        return Told(f"{looked}; {error}", True)
    return Told(f"{looked}, {cleared} done with" if cleared else str(looked), happened)


def opener(source: DropSource, chosen: settings.Settings) -> Callable[[], Storage]:
    return lambda: locations.folder(source.where, access_of(chosen), sources.FIELD)
