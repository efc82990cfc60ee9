"""Files that are dropped for tables that nobody has declared: rules name the table, foreign keys decide the order, and
a table that cannot be used holds up nobody else."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops.sources import Rule
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines_tests.scenes.inbox import Inbox
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.whole_imports import begun, worked

CUSTOMERS, ORDERS = (
    Rule("customers*", table="shop.customers", mode="upsert", match_on="email"),
    Rule("orders*", table="shop.orders", reading=Reading.of({"delimiter": "semicolon", "decimal": ","})),
)
ORDER = "id;customer_id;total;ordered\n1;100;9,50;2026-01-10\n"


@pytest.fixture
def inbox(engine: Engine, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    made = Inbox(engine, tmp_path / "inbox")
    made.set(rules=(ORDERS, CUSTOMERS))
    return made


def done(inbox: Inbox, key: str) -> Job:
    with transaction(inbox.engine) as connection:
        job = jobs.find(connection, key)
    return worked(inbox.engine, begun(inbox.engine, job))


def test_what_a_table_refers_to_is_loaded_first(inbox: Inbox, shop: Shop) -> None:
    inbox.drop("orders.csv", ORDER)
    inbox.drop("customers.csv", "id,email,name\n100,x@example.org,X\n1,c1@example.org,First\n")
    found = inbox.look()
    assert [Path(name).name for (name,) in inbox.taken()] == ["customers.csv", "orders.csv"]
    for key in found.jobs:
        assert done(inbox, key).status == "COMPLETED"
    assert shop.query("SELECT customer_id, total FROM shop.orders") == [(100, 9.5)]
    assert shop.query("SELECT name FROM shop.customers WHERE id IN (1, 100) ORDER BY id") == [("First",), ("X",)]


def test_a_rule_may_have_options_for_other_files(inbox: Inbox, shop: Shop) -> None:
    inbox.drop("orders.ndjson", '{"id": 1, "customer_id": 2, "total": 9.5, "ordered": "2026-01-10"}\n')
    (key,) = inbox.look().jobs
    assert done(inbox, key).status == "COMPLETED"
    assert shop.query("SELECT customer_id, total FROM shop.orders") == [(2, 9.5)]


def test_a_table_that_cannot_be_used_holds_up_no_other(inbox: Inbox, shop: Shop) -> None:
    gone = Rule("gone*", table="shop.gone")
    keyless = Rule("notes*", table="shop.notes", mode="upsert")
    inbox.set(rules=(gone, keyless, CUSTOMERS))
    for name in ("gone.csv", "notes.csv"):
        inbox.drop(name, "a,b\n1,2\n")
    inbox.drop("customers.csv", "id,email,name\n100,x@example.org,X\n")
    looked = inbox.look()
    assert (looked.taken, looked.without_table) == (1, 2)
    for said in ("2 whose table cannot be used", 'relation "shop.gone" does not exist', "no key that an upsert"):
        assert said in str(looked)
    shop.do("CREATE TABLE shop.gone (a integer, b integer); ALTER TABLE shop.notes ADD id integer PRIMARY KEY")
    assert inbox.look().taken == 2


def test_tables_that_refer_to_each_other(inbox: Inbox, shop: Shop) -> None:
    shop.do(
        "CREATE TABLE shop.a (id integer PRIMARY KEY, b integer);"
        "CREATE TABLE shop.b (id integer PRIMARY KEY, a integer REFERENCES shop.a DEFERRABLE);"
        "ALTER TABLE shop.a ADD FOREIGN KEY (b) REFERENCES shop.b"
    )
    inbox.set(rules=(Rule("a*", table="shop.a"), Rule("b*", table="shop.b"), CUSTOMERS))
    inbox.drop("a.csv", "id,b\n1,\n")
    inbox.drop("b.csv", "id,a\n1,1\n")
    assert inbox.look().taken == 2
