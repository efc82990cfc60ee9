"""Everything that Dagster sees: the definitions of the slices, merged."""

import dagster as dg

from bulk_pipelines import settings
from bulk_pipelines.distribution import definitions as distribution
from bulk_pipelines.distribution.retention import prune_registry
from bulk_pipelines.dropping import doors
from bulk_pipelines.drops.definitions import drops
from bulk_pipelines.drops.retention import prune_ledger
from bulk_pipelines.exports import completion as ended_exports
from bulk_pipelines.exports import definitions as exports
from bulk_pipelines.imports import retention, winding_up
from bulk_pipelines.imports.definitions import imports, launchables
from bulk_pipelines.imports.sent import clearing
from bulk_pipelines.maintenance.definitions import WindUp, maintenance, upkeep
from bulk_pipelines.maintenance.retention import Part, prune_audit
from bulk_pipelines.notices import definitions as notices
from bulk_pipelines.orchestration.alerts import failure_sensors
from bulk_pipelines.orchestration.relay import relay
from bulk_pipelines.orchestration.resources import Database, step_executor
from bulk_pipelines.processing import definitions as processing
from bulk_pipelines.processing.retention import prune_answers, prune_hosts, prune_references
from bulk_pipelines.telemetry import logs

logs.set_up(settings.current())

imported = launchables()
exported = exports.launchables()
distributed = distribution.launchables()
processed = processing.launchables()
noticed = notices.launchables()
launched = [*imported, *exported, *distributed, *processed, *noticed]
retired = [
    Part("rejects", retention.prune_rejects),
    Part("landed files", retention.prune_landed),
    Part("drops in the ledger", prune_ledger),
    Part("registered files that are gone", prune_registry),
    Part("answers of providers", prune_answers),
    Part("files of references", prune_references),
    Part("limits of web servers", prune_hosts),
    Part("audit", prune_audit),
]
passes = upkeep(
    launched,
    retired,
    endings=[
        WindUp(winding_up.wind_up_all, winding_up.is_anything_due),
        WindUp(ended_exports.wind_up_all, ended_exports.is_anything_due),
        WindUp(clearing.clear_all, clearing.is_anything_due),
    ],
    brief=["import_file", "export_rows", "distribute_files", "process_rows"],
)

defs = dg.Definitions.merge(
    imports(imported),
    exports.exports(exported),
    distribution.distribution(distributed),
    processing.processing(processed),
    drops(doors(), [*imported, *processed]),
    maintenance(passes),
    notices.notices(noticed),
    dg.Definitions(
        sensors=[relay(launched), *failure_sensors(settings.current())],
        resources={"database": Database()},
        executor=step_executor,
    ),
)
