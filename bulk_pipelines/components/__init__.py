"""Dagster components: the parts of this project, configured in YAML, where they are called `bulk_pipelines.Table` and
so on. `parts` makes their definitions; `frames` puts frames into other people's assets, with `frame_imports` for the
way in, `frame_rows` for the way out, and `frame_types` for what counts as a frame."""

from pathlib import Path
from typing import Annotated

import dagster as dg
from dagster.components import scaffold_component
from pydantic import BaseModel, Field

from bulk_pipelines.components import parts


class Part(dg.Component, dg.Model, dg.Resolvable):
    """The field that all parts have. (What a field is for stands in its resolver, where Dagster's docs find it.)"""

    database: Annotated[
        str | None,
        dg.Resolver.default(
            description="The variable of the environment that holds the database's address. If none is named, it is"
            " BULK_DATABASE_URL.",
            examples=["WAREHOUSE_URL"],
        ),
    ] = None


TABLE = "The name of the declaration: users, or that of a table that `bulk resources adopt` has declared."


class TableParams(BaseModel):
    """The parameters of `dg scaffold defs bulk_pipelines.Table`."""

    table: str = Field("users", description=TABLE)


class TableScaffolder(dg.Scaffolder[TableParams]):
    """Writes the YAML of a table."""

    @classmethod
    def get_scaffold_params(cls) -> type[TableParams]:
        return TableParams

    def scaffold(self, request: dg.ScaffoldRequest[TableParams]) -> None:
        scaffold_component(request, {"table": request.params.table})


class DropsScaffolder(dg.Scaffolder):
    """Writes the YAML, and a TOML file with one source beside it."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        scaffold_component(request, {"file": "drops.toml"})
        (request.target_path / "drops.toml").write_text(SOURCES)


SOURCES = """\
# Files that are dropped into `where` are imported, each version once. A relative path begins at the folder in which
# Dagster runs. docs/drops.md has S3, FTP and SFTP, and all fields of a source.
[[source]]
name = "inbox"
where = "inbox"

[[source.files]]
glob = "*.csv"
resource = "users"
"""


@dg.scaffold_with(TableScaffolder)
class Table(Part):
    """A declared table: files are imported into it, and it is exported, as assets with checks and jobs."""

    table: Annotated[str, dg.Resolver.default(description=TABLE, examples=["users"])]
    exports: Annotated[bool, dg.Resolver.default(description="Whether the table is exported, too.")] = True

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return parts.table(self.table, exports=self.exports, database=self.database)


@dg.scaffold_with(DropsScaffolder)
class Drops(Part):
    """Sensors that take files which are dropped into folders, S3, FTP or SFTP, each version once, and import them."""

    file: Annotated[
        str, dg.Resolver.default(description="The TOML file with the sources, beside this component's YAML.")
    ] = "drops.toml"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return parts.drops(Path(context.path) / self.file, database=self.database)


class Distribution(Part):
    """One file for each of many inputs, in S3 or a folder."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return parts.distribution(database=self.database)


class Processing(Part):
    """Rows that are looked up by recipes, an asset for each type of recipe."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return parts.processing(database=self.database)


class Upkeep(Part):
    """The schedules that rescue items, end jobs and remove what is old, the jobs that control others, and notices. A
    project has this part once."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return parts.upkeep(database=self.database)
