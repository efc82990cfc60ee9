"""The doctor: every thing that can be wrong is seen, named, and comes with what to do."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from bulk_pipelines import doctor
from bulk_pipelines.cli import main
from bulk_pipelines.database import address, pool, session
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.settings import Settings
from bulk_pipelines.up import home
from bulk_pipelines_tests.scenes.today import one_of


@pytest.fixture
def prepared(chosen: Settings) -> Settings:
    """An installation whose Dagster storage exists."""
    home.prepare(chosen, chosen.database_url)
    done = home.dagster(chosen, chosen.database_url, "instance", "info")
    assert done.returncode == 0, done.stderr
    return chosen


def failed(findings: list[doctor.Finding]) -> list[doctor.Finding]:
    return [each for each in findings if not each.ok]


def test_all_is_well(prepared: Settings) -> None:
    findings = doctor.examine(prepared)
    assert failed(findings) == []
    subjects = [each.subject for each in findings]
    assert subjects == [
        *("python", "packages", "settings", "storage", "drops", "definitions"),
        *("database", "schema", "migrations", "distribution query", "dagster instance"),
    ]


def test_before_the_first_start_nothing_is_wrong(chosen: Settings) -> None:
    assert doctor.instance(chosen) == doctor.Finding("dagster instance", True, "not made yet; `bulk up` makes it")


def test_the_command_says_what_to_do_and_its_exit_code_tells(chosen: Settings, empty_database_url: str) -> None:
    variables = {"BULK_DATABASE_URL": empty_database_url, "BULK_HOME": str(chosen.home)}
    done = CliRunner().invoke(main, ["doctor"], env=variables)
    assert done.exit_code == 1
    assert re.search(
        r"^FAIL  migrations: not applied: 0001_engine.*\n +-> run `bulk migrate`$", done.output, re.MULTILINE
    )
    assert CliRunner().invoke(main, ["migrate"], env=variables).exit_code == 0
    done = CliRunner().invoke(main, ["doctor"], env=variables)
    assert done.exit_code == 0, done.output
    assert "FAIL" not in done.output


def test_packages_that_are_missing_or_of_another_version() -> None:
    assert doctor.unanswered("no-such-package>=1") == "no-such-package is not installed"
    assert re.fullmatch(r"click [\d.]+ is installed and >=999 is needed", doctor.unanswered("click>=999"))
    assert doctor.unanswered("no-such-package>=1; extra == 'bench'") == ""
    assert doctor.unanswered("click>=8") == ""


def test_packages_are_those_the_project_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bulk_pipelines-9.dist-info").mkdir()
    asked = "Metadata-Version: 2.1\nName: bulk_pipelines\nVersion: 9\nRequires-Dist: click>=999\n"
    (tmp_path / "bulk_pipelines-9.dist-info" / "METADATA").write_text(asked)
    monkeypatch.syspath_prepend(tmp_path)
    finding = doctor.packages()
    assert not finding.ok
    assert "make setup" in finding.remedy


def test_a_misspelt_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.variables().ok
    monkeypatch.setenv("BULK_UI_PROT", "1")
    finding = doctor.variables()
    assert (finding.ok, finding.message) == (False, "no such setting: BULK_UI_PROT")
    assert "docs/settings.md" in finding.remedy


def test_a_folder_that_cannot_be_written(chosen: Settings) -> None:
    chosen.home.write_text("a file stands where the folder should be")
    finding = doctor.storage(chosen)
    assert not finding.ok
    assert "cannot be written: File exists" in finding.message
    assert "BULK_HOME" in finding.remedy


@pytest.mark.parametrize("given", one_of([True, False]))
def test_the_doctor_says_all_it_can_in_a_home_that_cannot_be_written(
    given: bool, chosen: Settings, database_url: str
) -> None:
    chosen.home.write_text("a file stands where the folder should be")
    variables = {"BULK_DATABASE_URL": database_url if given else "", "BULK_HOME": str(chosen.home / "below")}
    done = CliRunner().invoke(main, ["doctor"], env=variables)
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert re.search(r"^FAIL  storage: .*below cannot be written: Not a directory$", done.output, re.MULTILINE)
    assert re.search(r"^ok    packages", done.output, re.MULTILINE)
    assert re.search(r"^(ok|FAIL) +definitions", done.output, re.MULTILINE)
    assert bool(re.search(r"^ok    migrations", done.output, re.MULTILINE)) == given
    assert not re.search(r"embedded|postgres.*server\.log", done.output)


def test_a_full_disk(chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SMALLEST_DISK", 10**18)
    finding = doctor.storage(chosen)
    assert (finding.ok, finding.remedy) == (False, "make room")


@pytest.mark.parametrize(
    ("url", "message", "remedy"),
    [
        ("postgresql://me:s3cret@127.0.0.1:1/x", "Connection refused", "see that the server runs"),
        ("postgresql://me:s3cret@no-such-host.invalid/x", "resol|not known|translate", "correct the host's name"),
        ("mysql://me:s3cret@localhost/x", "must be PostgreSQL", "write it as postgresql://"),
        ("s3cret", "not a database address", "write it as postgresql://"),
    ],
)
def test_a_database_that_cannot_be_had(url: str, message: str, remedy: str, tmp_path: Path) -> None:
    finding = doctor.server(Settings(database_url=url, home=tmp_path, connect_timeout=2))
    assert not finding.ok
    assert re.search(message, finding.message)
    assert finding.remedy.startswith(remedy)
    assert "BULK_DATABASE_URL" in finding.remedy + finding.message
    assert "s3cret" not in finding.remedy + finding.message


def test_a_database_that_does_not_exist(server: Server, tmp_path: Path) -> None:
    finding = doctor.server(Settings(database_url=server.url("no_such_database"), home=tmp_path))
    assert not finding.ok
    assert "make that database" in finding.remedy


@pytest.fixture
def guarded_server(binaries: Path) -> Iterator[Server]:
    """A server that asks for passwords."""
    with TemporaryDirectory(prefix="bulk-password-", dir="/tmp") as name:
        server = Server(Path(name) / "postgres", binaries)
        server.start()
        with pool.single(server.url()) as connection:
            connection.execute("CREATE ROLE somebody LOGIN PASSWORD 'right'")
        (server.data / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        server.restart()
        yield server
        server.stop_immediately()


def test_a_wrong_password_is_named_and_not_shown(guarded_server: Server, tmp_path: Path) -> None:
    def finding(login: str) -> doctor.Finding:
        url = guarded_server.url().replace("postgres@", f"{login}@", 1)
        return doctor.server(Settings(database_url=url, home=tmp_path))

    assert finding("somebody:right").ok
    for login in ("somebody:wr0ng", "nobody:wr0ng", "somebody"):
        refused = finding(login)
        assert not refused.ok
        assert refused.remedy == "correct the user and the password (BULK_DATABASE_URL)"
        assert "wr0ng" not in refused.message


def test_a_server_that_is_too_old(chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "OLDEST_SERVER", 99)
    finding = doctor.server(chosen)
    assert not finding.ok
    assert finding.remedy.startswith("name a newer server")


def test_an_embedded_server_that_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "database" / "postgres"
    broken.mkdir(parents=True)
    (broken / "PG_VERSION").write_text("9\n")
    finding = doctor.server(Settings(home=tmp_path))
    assert not finding.ok
    assert "made by PostgreSQL 9" in finding.message
    assert "BULK_DATABASE_URL" in finding.remedy


def test_a_database_that_is_ahead(chosen: Settings) -> None:
    with pool.single(chosen.database_url) as connection:
        connection.execute("INSERT INTO _yoyo_migration VALUES ('x', '9999_from_the_future', now())")
    finding = doctor.schema(chosen)
    assert not finding.ok
    assert "9999_from_the_future" in finding.message
    assert finding.remedy.startswith("update this program")


def test_an_embedded_database_without_tables_is_not_wrong(tmp_path: Path) -> None:
    """The first command that needs tables makes them."""
    chosen = Settings(home=tmp_path)
    with address.held(chosen):
        assert doctor.schema(chosen) == doctor.Finding("migrations", True, doctor.NO_TABLES)


def test_the_query_of_distribution(chosen: Settings) -> None:
    finding = doctor.distribution(chosen)
    assert (finding.ok, finding.message.partition(", ")[0]) == (True, "the rows of index_data: index_key")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT close FROM index_dta WHERE (:index_key, :effective_date, :asof_indicator) IS NOT NULL", "index_dta"),
        ("SELECT 1 + :index_key, :effective_date, :asof_indicator", "operator does not exist: integer + text"),
        ("SELECT :index_key, :effective_date, :asof_indicator FROM a WHERE b = 'c", "text that does not end"),
        ("DELETE FROM job WHERE (:index_key, :effective_date, :asof_indicator) IS NOT NULL", "syntax error"),
        ("SELECT 1", "does not ask for :index_key"),
        (None, "cannot be read"),
    ],
)
def test_a_query_of_distribution_that_is_wrong(
    chosen: Settings, tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "query.sql"
    if text:
        file.write_text(text)
    finding = doctor.distribution(replace(chosen, distribution_query=str(file)))
    assert not finding.ok
    assert message in finding.message
    assert "\n" not in finding.message
    assert finding.remedy.startswith(f"mend {file}")


def test_definitions_that_do_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MODULE", "bulk_pipelines.no_such_module")
    finding = doctor.definitions()
    assert not finding.ok
    assert "no_such_module" in finding.message
    assert "dagster definitions validate" in finding.remedy


def test_a_broken_dagster_configuration(prepared: Settings) -> None:
    (home.place(prepared).folder / "dagster.yaml").write_text("no_such_section: {}\n")
    finding = doctor.instance(prepared)
    assert not finding.ok
    assert "dagster.yaml" in finding.remedy


def test_dagster_storage_of_another_version(prepared: Settings) -> None:
    with pool.single(prepared.database_url) as connection:
        connection.execute("UPDATE dagster.alembic_version SET version_num = '7e2f3204cf8e'")
    finding = doctor.instance(prepared)
    assert (finding.ok, finding.message) == (False, "its storage is of another version")
    assert finding.remedy == "run `bulk migrate`"
