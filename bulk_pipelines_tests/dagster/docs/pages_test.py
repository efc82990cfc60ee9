"""The pages of the docs: every block of commands on them is run, page by page, in one installation."""

import gzip
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import openpyxl
import pytest

from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes import databases, pictures
from bulk_pipelines_tests.scenes.furnished import found_goods
from bulk_pipelines_tests.scenes.reader import BLOCK, Reader
from bulk_pipelines_tests.servers.processes import S3Server
from bulk_pipelines_tests.servers.provider_server import ProviderServer, Said
from bulk_pipelines_tests.servers.wikimedia_server import Item, Wikimedia

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
GENERATED = {"cli.md", "json.md", "settings.md", "metrics.md"}
"""Pages whose examples other tests compare with the commands."""
ELSEWHERE = {
    "README.md": {
        "make demo": "the whole story takes a minute: make test-long runs its parts, and each release its whole",
        "make test": "it would run this test",
        "python3 -m venv ~/bulk": "dagster/projects/wheel_test.py installs the wheel and uses it",
    },
    "api.md": {"": "integration/api/docs_test.py runs all of the page on a server, and remote_test.py its last block"},
    "embedding.md": {"dg scaffold": "dagster/projects/component_test.py does the same in a project of dg"},
}
"""Blocks that are not run here, by their beginnings, and why. `docs/deployment.md` has a unit of systemd besides, which
is no block of commands: there is no systemd here."""

USERS = "id,email,name,role,active\n"


def users(page: str, *roles: str) -> str:
    """Return a file of users, whom no other page knows."""
    return USERS + "".join(f",{page}{n}@example.org,User {n},{role},true\n" for n, role in enumerate(roles))


def orders(reader: Reader) -> None:
    reader.runs(
        "DROP SCHEMA IF EXISTS shop CASCADE",
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.orders (number integer PRIMARY KEY, total numeric(12, 2) NOT NULL)",
    )
    (reader.folder / "orders.csv").write_text("number,total\n1,99.50\n2,100.50\n")


def readme(reader: Reader) -> None:
    orders(reader)
    reader.runs("ALTER TABLE shop.orders RENAME number TO id")
    book = openpyxl.Workbook()
    book.active.append(["id", "total"])
    book.active.append([7, 12.5])
    book.save(reader.folder / "partner.xlsx")
    (reader.folder / "partner.csv").write_bytes("Order No;Total;Straße\n8;1.250,75;x\n".encode("cp1252"))


def imports(reader: Reader) -> None:
    orders(reader)
    (reader.folder / "users.csv").write_text(users("imports", "reader", "king"))
    partner = users("partner", "admin").replace("active", "active,Straße").replace("true", "true,ü")
    (reader.folder / "partner.csv").write_bytes(partner.encode("cp1252"))
    (reader.folder / "people.csv").write_text("email,first,last\nada@example.org,Ada,Lovelace\n")
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Users")
    for row in (["A report"], [], ["of today"], ["email", "name", "role"], ["x@example.org", "X", "reader"]):
        sheet.append(row)
    book.save(reader.folder / "report.xlsx")


def exports(reader: Reader) -> None:
    (reader.folder / "revenue.sql").write_text("SELECT role, count(*) AS people FROM users GROUP BY role")


def operations(reader: Reader) -> None:
    """Let a distribution have a dead letter."""
    reader.does("bulk distribute sample --indexes 1 --days 1 > request.json")
    request = reader.folder / "request.json"
    asked = json.loads(request.read_text())
    asked["inputs"] += [{"indexKey": "NOWHERE", "effectiveDate": 20240101, "asofindicator": "CLS"}]
    request.write_text(json.dumps(asked))
    reader.does("bulk distribute submit request.json")
    reader.does("bulk distribute run JOB", 1)


def drops(reader: Reader) -> None:
    """Let a file be dropped whose import is cancelled."""
    source = reader.folder / "incoming"
    source.mkdir()
    (source / "users_2026-01-10.csv").write_text(USERS)
    declared = re.search(r"^```toml\n(.*?)^```", (CHECKOUT / "docs" / "drops.md").read_text(), re.MULTILINE | re.DOTALL)
    assert declared is not None
    text = declared[1].replace("s3://incoming/daily", str(source)).replace('marker = ".done"', "")
    text = text.replace("settle_seconds = 2.0 ", "settle_seconds = 0.0 ").replace("semicolon", "comma")
    (reader.folder / "drops.toml").write_text(text.replace(' = "E-Mail"', ' = "email"'))
    reader.settings |= {"BULK_DROPS_FILE": str(reader.folder / "drops.toml")}
    reader.does("bulk drops scan; bulk drops scan; bulk cancel JOB; bulk drops scan")


def processing(reader: Reader) -> None:
    page = (CHECKOUT / "docs" / "processing.md").read_text()
    declared = next(text for text in re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    recipes = Path(reader.settings["BULK_RECIPES"])
    recipes.mkdir(exist_ok=True)
    text = declared.replace("https://api.shop.example/v1/", reader.settings["SHOP"]).replace(
        "per_second = 5", "private = true"
    )
    (recipes / "shop.toml").write_text(text.replace("$.price.amount", "$.price"))
    (reader.folder / "rows.csv").write_text("title,brand\nLamp Aster,Acme\nDesk Calla,Acme\nVase,Acme\n")
    shutil.copytree(CHECKOUT / "docs" / "samples", reader.folder / "docs" / "samples")


def photos(reader: Reader) -> None:
    (reader.folder / "holidays").mkdir()
    shot = pictures.saved(pictures.drawn())
    (reader.folder / "holidays" / "beach.jpg").write_bytes(shot)
    with zipfile.ZipFile(reader.folder / "scans.zip", "w") as archive:
        archive.writestr("scan.jpg", shot)


def wikidata(reader: Reader) -> None:
    recipes = Path(reader.settings["BULK_RECIPES"])
    recipes.mkdir(exist_ok=True)
    (recipes / "wikimedia.toml").write_text(
        "".join(
            f'[provider.{name}]\naddress = "{reader.settings["WIKIMEDIA"]}{path}"\nprivate = true\n'
            'shares = "wikimedia"\nper_minute = 200\nat_once = 3\n'
            for name, path in (("wikidata", "w/"), ("wikidata-query", ""), ("wikipedia-en", "en/w/"))
        )
    )
    (reader.folder / "companies.csv").write_text("name\nAcme Lamps\n")


SCENES: dict[str, Callable[[Reader], None]] = {
    "README.md": readme,
    "imports.md": imports,
    "exports.md": exports,
    "operations.md": operations,
    "drops.md": drops,
    "processing.md": processing,
    "pictures.md": photos,
    "wikidata.md": wikidata,
    "resources.md": orders,
    "privileges.md": orders,
}
"""What has to be there before the commands of a page can be given."""


@pytest.fixture(scope="module")
def installation(
    server: Server, template: str, binaries: Path, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Reader]]:
    """Readers of pages, who share a database, Dagster's home, and the servers of others."""
    root = tmp_path_factory.mktemp("pages")
    access = s3_server.access.s3
    for bucket in ("incoming", "photos"):
        s3_server.client.create_bucket(Bucket=bucket)
    found = gzip.compress(b'{"email": "s3@example.org", "name": "S", "role": "reader"}\n')
    s3_server.client.put_object(Bucket="incoming", Key="users.ndjson.gz", Body=found)
    s3_server.client.put_object(Bucket="photos", Key="2026/beach.jpg", Body=pictures.saved(pictures.drawn(seed=2)))
    wikimedia = Wikimedia([Item("Q1", "Acme Lamps", "company")])
    with (
        databases.fresh(server, template) as url,
        databases.fresh(server, "template1") as restored,
        databases.fresh(server, "template1") as clean,
        ProviderServer(found_goods) as shop,
        ProviderServer(lambda call: Said({})) as hook,
        wikimedia.server() as wiki,
    ):
        settings = {
            "BULK_S3_ENDPOINT": access.endpoint,
            "BULK_S3_ACCESS_KEY_ID": access.access_key_id,
            "BULK_S3_SECRET_ACCESS_KEY": access.secret_access_key,
            "BULK_RECIPES": str(root / "recipes"),
            "BULK_RESOURCES": str(root / "resources"),
            "NEW_DATABASE_URL": restored,
            "SHOP": shop.url,
            "SHOP_TOKEN": "secret",
            "WIKIMEDIA": wiki.url,
            "PGHOST": str(server.socket_directory),
            "PGUSER": "postgres",
        }

        def reader(page: str) -> Reader:
            where = clean if page == "privileges.md" else url
            instead = {
                "https://example.org/hook": f"{hook.url}hook --private",
                "postgresql://bulk_owner@db.example.org/shop": where.replace("postgres@", "bulk_owner@"),
                "postgresql://postgres@db.example.org/shop": where,
            }
            return Reader(root / page, where, root / "home", binaries, settings, instead)

        yield reader


def shown(page: Path) -> list[str]:
    """Return the blocks of commands of a page that are run here."""
    left_out = tuple(ELSEWHERE.get(page.name, ()))
    return [text for kind, _, text in BLOCK.findall(page.read_text()) if kind == "sh" and not text.startswith(left_out)]


OWN_TESTS = {"tutorial.md", "your-tables.md", "your-files.md"}
READ = [page for page in PAGES if page.name not in GENERATED | OWN_TESTS and shown(page)]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in READ])
def test_the_commands_of_the_page_do_what_it_says(page: Path, installation: Callable[[str], Reader]) -> None:
    reader = installation(page.name)
    if page.name in SCENES:
        SCENES[page.name](reader)
    said = reader.reads(page, tuple(ELSEWHERE.get(page.name, ())))
    assert len(said) == len(shown(page))
