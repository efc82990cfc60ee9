"""Everything that Dagster sees: the definitions of the slices, merged."""

import dagster as dg

from bulk_pipelines.distribution import definitions as distribution
from bulk_pipelines.distribution.retention import prune_registry
from bulk_pipelines.drops.definitions import drops
from bulk_pipelines.drops.retention import prune_ledger
from bulk_pipelines.exports import completion as ended_exports
from bulk_pipelines.exports import definitions as exports
from bulk_pipelines.imports import retention, submission, winding_up
from bulk_pipelines.imports.definitions import imports, launchables, references
from bulk_pipelines.maintenance.definitions import WindUp, maintenance, upkeep
from bulk_pipelines.maintenance.retention import Part
from bulk_pipelines.orchestration.relay import relay
from bulk_pipelines.orchestration.resources import Database, step_executor

imported = launchables()
exported = exports.launchables()
distributed = distribution.launchables()
launched = [*imported, *exported, *distributed]
retired = [
    Part("rejects", retention.prune_rejects),
    Part("landed files", retention.prune_landed),
    Part("drops in the ledger", prune_ledger),
    Part("registered files that are gone", prune_registry),
]
passes = upkeep(
    launched,
    retired,
    endings=[
        WindUp(winding_up.wind_up_all, winding_up.is_anything_due),
        WindUp(ended_exports.wind_up_all, ended_exports.is_anything_due),
    ],
    brief=["import_file", "export_rows", "distribute_files"],
)

defs = dg.Definitions.merge(
    imports(imported),
    exports.exports(exported),
    distribution.distribution(distributed),
    drops(submission.submit_drop, references(), imported),
    maintenance(passes),
    dg.Definitions(sensors=[relay(launched)], resources={"database": Database()}, executor=step_executor),
)
