"""Everything Dagster sees: the definitions of the slices, merged."""

import dagster as dg

from bulk_pipelines.dagster_resources import Database, step_executor

defs = dg.Definitions.merge(
    dg.Definitions(resources={"database": Database()}, executor=step_executor),
)
