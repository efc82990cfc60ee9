"""Everything Dagster sees: the definitions of the slices, merged."""

import dagster as dg

from bulk_pipelines.dagster_resources import Database, step_executor
from bulk_pipelines.drops.definitions import drops
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.definitions import imports, launchables, references
from bulk_pipelines.maintenance.definitions import maintenance
from bulk_pipelines.relay.definitions import relay

launched = launchables()

defs = dg.Definitions.merge(
    imports(launched),
    drops(submission.submit_drop, references(), launched),
    maintenance(launched),
    dg.Definitions(sensors=[relay(launched)], resources={"database": Database()}, executor=step_executor),
)
