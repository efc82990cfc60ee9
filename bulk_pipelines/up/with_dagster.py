"""What a command does in a process of its own, because it needs Dagster. `bulk import` and its like have one job worked
as a run of the installation's Dagster; `bulk sweep`, `bulk finalize` and `bulk prune` make one pass."""

import json
import sys

from bulk_pipelines import settings
from bulk_pipelines.definitions import launched, passes
from bulk_pipelines.errors import BulkError
from bulk_pipelines.orchestration import command_runs
from bulk_pipelines.orchestration.command_runs import CodeLocation
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.up import home
from bulk_pipelines.up.home import LOCATION
from bulk_pipelines.up.programs import MODULE

PASSES = ("sweep", "finalize", "prune")


def location() -> CodeLocation:
    return CodeLocation(LOCATION, str(home.place(settings.current()).socket), MODULE, str(CHECKOUT))


Row = tuple[str, int, str | None]
"""What a pass did, how often, and why it could not do it."""


def pass_here(name: str, dry_run: bool) -> list[Row]:
    """Make the pass that the schedule of this name makes, and return what it did."""
    pool = Database().engine
    with command_runs.instance() as dagster:
        match name:
            case "sweep":
                return [(*each, None) for each in passes.sweep(pool, dagster).items()]
            case "finalize":
                return [(*each, None) for each in passes.finalize(pool).items()]
            case _:
                pruned = passes.prune(pool, dagster, settings.current(), dry_run, tell)
                return [(each.name, each.count, each.problem) for each in pruned]


def tell(part: str) -> None:
    """Say which part of a pass begins, to the command that started this process."""
    sys.stdout.write(json.dumps({"begun": part}) + "\n")
    sys.stdout.flush()


def answer(name: str, dry_run: bool) -> str:
    """Return what the pass did, or why it failed, as JSON for the command that started this process."""
    try:
        return json.dumps({"rows": pass_here(name, dry_run)})
    except BulkError as error:
        return json.dumps({"error": str(error)})


if __name__ == "__main__":
    wanted, *options = sys.argv[1:]
    if wanted in PASSES:
        sys.stdout.write(answer(wanted, "--dry-run" in options) + "\n")
    else:
        sys.exit(not command_runs.run_here(wanted, launched, location()))
