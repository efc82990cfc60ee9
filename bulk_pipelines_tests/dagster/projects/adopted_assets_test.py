"""Adopted tables in Dagster: assets whose lineage follows the foreign keys, checks, drops, and parts for projects of
other people."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines import definitions, resources, settings
from bulk_pipelines.components import frames, parts
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.dropping import doors
from bulk_pipelines.drops import scan
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.exports import definitions as exporting
from bulk_pipelines.exports import submission as exports
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import definitions as importing
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import adoption, written
from bulk_pipelines_tests.scenes.frames import Project, error_of, project
from bulk_pipelines_tests.scenes.inbox import Inbox

__all__ = ["project"]

SCHEMA = """
CREATE SCHEMA shop;
CREATE TABLE shop.customers (id integer PRIMARY KEY, name text NOT NULL, best_order integer);
CREATE TABLE shop.orders (
    id integer PRIMARY KEY, customer_id integer REFERENCES shop.customers, before integer REFERENCES shop.orders
);
ALTER TABLE shop.customers ADD FOREIGN KEY (best_order) REFERENCES shop.orders;
CREATE TABLE shop.a_line (id integer PRIMARY KEY, order_id integer REFERENCES shop.orders);
CREATE TABLE shop.writers (id uuid PRIMARY KEY REFERENCES users);
"""
NAMES = ("a_line", "customers", "orders", "writers")


@pytest.fixture
def adopted(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with tables that are adopted. Some of them refer to each other in a circle, and one to itself."""
    monkeypatch.setenv("BULK_RESOURCES", str(project.folder / "resources"))
    with transaction(project.engine) as connection:
        connection.execute(SCHEMA.encode(), prepare=False)
        for name in NAMES:
            adoption.adopt(connection, settings.current(), f"shop.{name}", None, provenance=True, again=False)
    return project


def test_lineage_follows_the_foreign_keys(adopted: Project) -> None:
    everything = dg.Definitions.merge(
        importing.imports(importing.launchables()),
        exporting.exports(exporting.launchables()),
        dg.Definitions(resources={"database": adopted.database}),
    )
    graph = everything.resolve_asset_graph()
    parents = {
        key.path[-1]: sorted(parent.path[-1] for parent in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
        if key.path[-1] in {*NAMES, *(f"{name}_export" for name in NAMES)}
    }
    assert parents == {
        # A circle has a beginning: the first of its tables in the order of the alphabet.
        "customers": [],
        "orders": ["customers"],
        "a_line": ["orders"],
        "writers": ["users"],
        **{f"{name}_export": [name] for name in NAMES},
    }
    checked = {key.asset_key.path[-1] for key in graph.asset_check_keys}
    assert checked >= {*NAMES, *(f"{name}_export" for name in NAMES)}
    assert everything.resolve_job_def("import_orders")
    assert [each.name for each in resources.known()][3:] == ["writers", "customers", "orders", "a_line"]
    found = parts.table("orders", database="SHOP_URL")
    assert {key.path[-1] for key in found.resolve_asset_graph().get_all_asset_keys()} >= {"orders", "orders_export"}


def test_files_that_are_dropped_for_adopted_tables(adopted: Project, engine: Engine) -> None:
    inbox = Inbox(engine, adopted.folder / "inbox")
    inbox.references = doors().references
    (source,) = scan.configured(settings.current(), list(inbox.references))
    inbox.set(rules=[rule for rule in source.rules if rule.resource in NAMES])
    inbox.drop("orders.csv", "id,customer_id\n1,1\n")
    inbox.drop("customers.csv", "id,name\n1,Ann\n")
    assert inbox.look().taken == 2
    assert [Path(name).name for (name,) in inbox.taken()] == ["customers.csv", "orders.csv"]
    assert submission.references()["orders"] == ["customers"]


def test_the_rows_of_an_adopted_table_as_a_frame(adopted: Project) -> None:
    """What an asset returns is imported with the checks of the table, and the check of the asset shows the rejects."""

    @dg.asset(io_manager_key="bulk", metadata={frames.TABLE: "shop.customers"})
    def leads() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2, 2], "name": ["Ann", "Bob", "Cyd"]})

    @dg.asset
    def after(leads: pd.DataFrame) -> None:
        assert leads[["id", "name"]].to_numpy().tolist() == [[1, "Ann"], [2, "Bob"]]

    result = adopted.materialize(leads, after, frames.rejected(leads, most=0))
    assert result.success, error_of(result)
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.description) == (False, "1 of 3 rows were rejected")
    shown = check.metadata["first_rejects"]
    assert isinstance(shown, dg.TableMetadataValue)
    assert [each.data["reasons"] for each in shown.records] == ["duplicate_key"]


def test_a_job_whose_declaration_is_elsewhere_says_so(adopted: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs are an import and an export all the same; nothing but their declaration is missing."""
    sender = Sender("me", "cli")
    file = adopted.folder / "customers.csv"
    file.write_text("id,name\n1,Ann\n")
    wanted = Options("customers").request((RequestedFile.of(str(file)),))
    with transaction(adopted.engine) as connection:
        imported = submission.submit(connection, wanted, sender).job.job_key
        exported = exports.submit(connection, ExportRequest.parse({"resource": "customers"}), sender).job.job_key
        assert submission.import_job(connection, imported).job_key == imported
        assert exports.export_job(connection, exported).job_key == exported
    monkeypatch.setenv("BULK_RESOURCES", str(adopted.folder / "elsewhere"))
    with transaction(adopted.engine) as connection:
        with pytest.raises(InvalidInput, match="is an import of customers, whose declaration is not here"):
            submission.import_job(connection, imported)
        with pytest.raises(InvalidInput, match="is an export of customers, whose declaration is not here"):
            exports.export_job(connection, exported)
        with pytest.raises(InvalidInput, match="is no export, it is of the kind import_customers"):
            exports.export_job(connection, imported)
    with pytest.raises(InvalidInput, match="is an import of customers, whose declaration is not here"):
        frames.rows_of(imported, pd.DataFrame, database=adopted.database)


def test_tables_with_names_that_mean_something_else(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A declaration with such a name would keep all definitions from being loaded, and so every import of every
    table."""
    monkeypatch.setenv("BULK_RESOURCES", str(project.folder / "resources"))
    wanted = {
        "self": "self",
        "class": "shop_class",
        "config": "shop_config",
        "images": "shop_images",
        "file": "shop_file",
        "any_table": "shop_any_table",
        "Order Details": "order_details",
        "2026": "shop_2026",
    }
    found = {}
    with transaction(project.engine) as connection:
        connection.execute("CREATE SCHEMA shop")
        for name in wanted:
            table = f'shop."{name}"'
            refers = sql.SQL("integer REFERENCES shop.self") if name != "self" else sql.SQL("integer")
            connection.execute(
                sql.SQL("CREATE TABLE shop.{} (id integer PRIMARY KEY, other {})").format(sql.Identifier(name), refers)
            )
            resource, _ = adoption.adopt(connection, settings.current(), table, None, provenance=False, again=False)
            found[name] = resource.name
        assert found == wanted
        connection.execute("CREATE TABLE shop.self_export (id integer); CREATE SCHEMA b; CREATE TABLE b.self (id int)")
        with pytest.raises(InvalidInput, match="'self_export' is what exports of 'self' are called in Dagster"):
            adoption.adopt(connection, settings.current(), "shop.self_export", None, provenance=False, again=False)
        with pytest.raises(InvalidInput, match="'config' cannot be the name of a resource: .* such as my_config"):
            adoption.adopt(connection, settings.current(), "b.self", "config", provenance=False, again=False)
        for again in (False, True):
            with pytest.raises(Conflict, match=r"self is the declaration of shop\.self: give the other one a --name"):
                adoption.adopt(connection, settings.current(), "b.self", None, provenance=False, again=again)
    importing_and_exporting = dg.Definitions.merge(
        importing.imports(importing.launchables()),
        exporting.exports(exporting.launchables()),
        dg.Definitions(resources={"database": project.database}),
    )
    parents = importing_and_exporting.resolve_asset_graph().get(dg.AssetKey("order_details")).parent_keys
    assert parents == {dg.AssetKey("self")}


def test_the_names_that_no_resource_can_have() -> None:
    everything = definitions.defs
    ours = {"users", "articles", "comments"}
    ours |= {f"{name}_export" for name in ours}
    assets = {key.path[-1] for key in everything.resolve_asset_graph().get_all_asset_keys()} - ours
    jobs = {job.name for job in everything.get_repository_def().get_all_jobs()}
    of_jobs = {name.removeprefix(kind) for name in jobs for kind in ("import_", "export_") if name.startswith(kind)}
    assert (DISALLOWED_NAMES | assets | of_jobs) - ours == written.RESERVED
