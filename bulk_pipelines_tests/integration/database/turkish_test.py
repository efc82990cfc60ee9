"""A database in Turkish, whose lower case of I is no i: emails are found in any case all the same."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.context import Mode
from bulk_pipelines_tests.scenes.export_files import exported, read
from bulk_pipelines_tests.scenes.import_runs import finished

EMAILS = ["INFO@example.org", "info2@example.org", "Igor@Example.ORG", "zoe@example.org"]


@pytest.fixture(scope="module")
def turkish_server(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a Turkish locale of its own: few machines have one installed."""
    program = shutil.which("localedef")
    if program is None:
        pytest.skip("no localedef is installed here (Debian: apt-get install libc-bin)")
    # Where the server's own user can read it.
    with TemporaryDirectory(prefix="bulk-locales-", dir="/tmp") as locales:
        Path(locales).chmod(0o755)
        command = [program, "-i", "tr_TR", "-f", "UTF-8", f"{locales}/tr_TR.UTF-8"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if not Path(locales, "tr_TR.UTF-8").exists():
            pytest.skip(f"no Turkish locale can be made here (Debian: apt-get install locales): {made.stderr.strip()}")
        server = Server(tmp_path_factory.mktemp("turkish") / "postgres", binaries)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOCPATH", locales)
            server.start()
        yield server
        server.stop_immediately()


@pytest.fixture
def turkish(turkish_server: Server) -> Iterator[Engine]:
    with pool.single(turkish_server.url()) as connection:
        connection.execute(
            "CREATE DATABASE turkish ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'tr_TR.UTF-8' TEMPLATE template0"
        )
    engine = pool.connect(turkish_server.url("turkish"))
    migrations.apply(turkish_server.url("turkish"))
    samples.furnish(turkish_server.url("turkish"))
    with pool.transaction(engine) as connection:
        found = connection.execute("SELECT lower('INFO')").fetchone()
        assert found == ("ınfo",), "this database would find nothing out"
    yield engine
    engine.dispose()
    with pool.single(turkish_server.url()) as connection:
        connection.execute("DROP DATABASE turkish WITH (FORCE)")


def users(file: Path, emails: list[str], name: str = "A") -> Path:
    file.write_text("email,name,role\n" + "".join(f"{email},{name},reader\n" for email in emails))
    return file


def selected(engine: Engine, where: str) -> set[str]:
    request = ExportRequest.parse({"resource": "users", "format": "ndjson", "fields": "email", "where": [where]})
    assert request.format is Format.NDJSON
    return {email for (email,) in read(engine, request, exported(engine, request))}


def test_filters_and_imports_go_by_the_same_lower_case(turkish: Engine, tmp_path: Path) -> None:
    assert finished(turkish, users(tmp_path / "first.csv", EMAILS)).counts.loaded == len(EMAILS)
    for email in EMAILS:
        for spelt in (email, email.upper(), email.lower()):
            assert selected(turkish, f"email={spelt}") == {email}
            assert selected(turkish, f"email in {spelt},nobody@example.org") == {email}
            assert selected(turkish, f"email!={spelt}") == set(EMAILS) - {email}
            assert selected(turkish, f"email not in {spelt}") == set(EMAILS) - {email}
            assert selected(turkish, f"email<={spelt}") & {email}

    again = finished(turkish, users(tmp_path / "again.csv", [each.lower() for each in EMAILS]), job_id=2)
    assert (again.counts.loaded, again.counts.rejected) == (0, len(EMAILS))
    upper = users(tmp_path / "upsert.csv", [each.upper() for each in EMAILS], "B")
    finished(turkish, upper, "users", Mode.UPSERT, match_on="email", job_id=3)
    with pool.transaction(turkish) as connection:
        assert connection.execute("SELECT count(*), min(name), max(name) FROM users").fetchone() == (4, "B", "B")


def test_what_ignores_case_is_compared_by_its_bytes(turkish: Engine) -> None:
    """The two sides of a comparison agree only while the column itself is in the C collation."""
    with pool.transaction(turkish) as connection:
        for resource in resources.RESOURCES:
            for key in (each for each in resource.keys if each.ignores_case):
                for table in (resource.table, f"{resource.table}_aside"):
                    found = connection.execute(
                        "SELECT collname FROM pg_attribute JOIN pg_collation ON pg_collation.oid = attcollation"
                        " WHERE attrelid = %s::regclass AND attname = %s",
                        [table, key.column],
                    ).fetchone()
                    assert found == ("C",), (table, key.column)
