"""Sensors for dropped files. Each tick looks at its sources and submits imports of what is complete; the relay launches
them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from bulk_pipelines import settings
from bulk_pipelines.drops import scan
from bulk_pipelines.drops.look import Doors
from bulk_pipelines.orchestration.pipeline import Launchable
from bulk_pipelines.orchestration.resources import Database

SECONDS_BETWEEN = 1
"""Seconds between two ticks at least. Dagster's daemon looks every five seconds, and with an interval of five it would
skip every second look."""
TICK_SECONDS = 30.0
"""The time after which a tick begins with no further source, so that with the time of its last source it stays below
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
        found = scan.configured(chosen, list(doors.references), file=configured)
        own = [source for source in found if source.scheme in schemes]
        if not own:
            missing = f"{configured} does not exist, the inbox is the only one"
            why = f"{configured.name} names none" if configured.exists() else missing
            return dg.SkipReason(f"no source of this kind: {why}")
        scanned = scan.scan(database.engine, own, chosen, doors, TICK_SECONDS)
        for each in scanned:
            if each.happened:
                context.log.info(str(each.looked))
        news = "; ".join(str(each) for each in scanned if each.happened or each.problem is not None)
        # Only people read the cursor: it shows what was taken last, which is hard to find among thousands of ticks.
        shown = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {news}" if news else context.cursor
        return dg.SensorResult(skip_reason="; ".join(map(str, scanned)), cursor=shown)

    return sensor
