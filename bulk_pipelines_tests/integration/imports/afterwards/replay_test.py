"""The rejects of an import, run again as an import of their own."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports import retention, submission, work
from bulk_pipelines.imports.afterwards import replays
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import reflection
from bulk_pipelines.storage.access import access_of
from bulk_pipelines_tests.scenes.listening import before, listening
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, worked

pytestmark = pytest.mark.usefixtures("home")

HEAD = "email,name,role\n"
TAKEN = "a@x.org"


@pytest.fixture
def taken(engine: Engine) -> None:
    """Somebody has the address until `mend`."""
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO users (id, email, name, role) VALUES (gen_random_uuid(), %s, 'Old', 'reader')", [TAKEN]
        )


def mend(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute("DELETE FROM users WHERE name = 'Old'")


def replayed(engine: Engine, job: Job) -> Job:
    chosen = settings.current()
    again = replays.replay(engine, job.job_key, landing.place(chosen), access_of(chosen), Actor("me", "cli")).job
    return worked(engine, begun(engine, again))


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def kept(engine: Engine, job: Job) -> list[tuple[bytes, str]]:
    with transaction(engine) as connection:
        return [(each.raw, each.reasons[0]["code"]) for each in rejects.every(connection, job.job_id)]


def names(engine: Engine) -> list[str]:
    with transaction(engine) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM users ORDER BY name").fetchall()]


def test_what_is_malformed_stays_malformed(engine: Engine, tmp_path: Path) -> None:
    """A newline inside a string, which JSON forbids, does not become a space."""
    bad = '{"email": "b@x.org", "name": "B\nb", "role": "reader"}'
    job = imported(engine, "users", written(tmp_path / "users.json", f"[{bad},{bad.replace(chr(10), chr(13))}]"))
    again = replayed(engine, job)
    assert again.status is JobState.FAILED
    assert kept(engine, again) == kept(engine, job)
    assert names(engine) == []


@pytest.mark.usefixtures("taken")
def test_an_unclosed_quote_hides_no_record_of_the_files_behind_it(engine: Engine, tmp_path: Path) -> None:
    files = [
        written(tmp_path / "1.csv", f'{HEAD}{TAKEN},One,reader\nb@x.org,"Two,reader\n'),
        written(tmp_path / "2.csv", f"{HEAD}{TAKEN},Three,reader\nc@x.org,Four,king\n"),
    ]
    job = imported(engine, "users", *files)
    mend(engine)
    again = replayed(engine, job)
    assert names(engine) == ["One"]
    assert kept(engine, again) == [
        (b'b@x.org,"Two,reader', "malformed_record"),
        (b"a@x.org,Three,reader", "duplicate_email"),
        (b"c@x.org,Four,king", "invalid_role"),
    ]


@pytest.mark.usefixtures("taken")
def test_files_of_all_formats_and_columns(engine: Engine, tmp_path: Path) -> None:
    """The replay also takes records that no file of their format would begin with."""
    files = [
        written(tmp_path / "1.csv", f"{HEAD}{TAKEN},One,reader\n"),
        written(tmp_path / "2.csv", f"role,email,name\nreader,{TAKEN},Two\nreader,only@x.org,Two\n"),
        written(tmp_path / "3.ndjson", f'{{}}\nnull\n{{"email": "{TAKEN}", "name": "Three", "role": "reader"}}\n'),
        written(tmp_path / "4.json", f'[5,\n{{"email": "{TAKEN}", "name": "Four", "role": "reader"}},,{{}}]'),
    ]
    job = imported(engine, "users", *files)
    mend(engine)
    again = replayed(engine, job)
    assert names(engine) == ["One", "Two"]
    first = kept(engine, job)
    assert len(first) == 9
    assert kept(engine, again) == [each for each in first[1:] if each[0]], "but not the nothing between two commas"
    with transaction(engine) as connection:
        assert jobs.find(connection, again.job_key).params["replay_of"] == job.job_key


def test_records_of_which_only_the_beginning_is_kept(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MAX_RECORD_BYTES", 200)
    large = "x" * 100_000
    job = imported(engine, "users", written(tmp_path / "users.csv", f"{HEAD}a@x.org,{large},reader\n"))
    with pytest.raises(Conflict, match="was kept whole: they were too large"):
        replayed(engine, job)


def test_what_a_person_has_mended_is_imported_and_tied_to_the_first_import(
    engine: Engine, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    first = written(tmp_path / "users.csv", f'{HEAD}a@x.org,"A, the first",reader\nb@x.org,B,king\n"c@x,org",C,king\n')
    job = imported(engine, "users", first)
    said = CliRunner().invoke(main, ["import", "errors", job.job_key, "--as-source"])
    assert said.stdout == f'{HEAD}b@x.org,B,king\n"c@x,org",C,king\n', "the header and the records, and nothing else"
    mended = written(tmp_path / "fix.csv", said.stdout.replace("king", "admin"))
    file = RequestedFile.of(str(mended))
    with transaction(engine) as connection:
        again = replays.replay_mended(connection, job.job_key, [file], Actor("me", "cli"), "fix 1").job
        repeated = replays.replay_mended(connection, job.job_key, [file], Actor("me", "cli"), "fix 1")
    assert (repeated.created, repeated.job.job_key) == (False, again.job_key)
    again = worked(engine, begun(engine, again))
    assert (again.status, again.params["replay_of"]) == (JobState.COMPLETED_WITH_ERRORS, job.job_key)
    assert kept(engine, again) == [(b'"c@x,org",C,admin', "invalid_email_format")], "what is still wrong is rejected"
    assert names(engine) == ["A, the first", "B"]
    with transaction(engine) as connection:
        entries = connection.execute("SELECT action, details FROM audit WHERE job_key = %s", [job.job_key]).fetchall()
    assert ("replay", {"replay": again.job_key}) in entries


def test_records_are_not_mended_while_the_import_goes_on_or_by_another_owner(engine: Engine, tmp_path: Path) -> None:
    file = RequestedFile.of(str(written(tmp_path / "users.csv", HEAD)))
    with transaction(engine) as connection:
        request = Options("users").request((file,))
        job = submission.submit(connection, request, Sender("ada", "api")).job
        with pytest.raises(Conflict, match="is SUBMITTED: wait for its end"):
            replays.replay_mended(connection, job.job_key, [file], Actor("ada", "api", admin=False))
        with pytest.raises(UnknownJob):
            replays.replay_mended(connection, job.job_key, [file], Actor("bob", "api", admin=False))


def test_no_reject_is_left_out_of_a_replay_because_retention_removes_it_meanwhile(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "PAGE_BYTES", 60)
    rows = "".join(f"{number},Nobody,reader\n" for number in range(10))
    job = imported(engine, "users", written(tmp_path / "users.csv", HEAD + rows))
    chosen = settings.current()
    prune = before(
        "WHERE job_id = %(job_id)s AND line > ", lambda: retention.remove_rejects(engine, job.job_id), number=2
    )
    with listening(engine, prune) as pool:
        again = replays.replay(pool, job.job_key, landing.place(chosen), access_of(chosen), Actor("me", "cli")).job
    assert retention.remove_rejects(engine, job.job_id) == 0, "it has removed them in the middle"
    assert (worked(engine, begun(engine, again)).result or {})["rejected"] == 10


@pytest.mark.parametrize("file", ["id,who\n1,Ann\n2,Bob\n", '[{"id": 1, "who": "Ann"}, {"id": 2, "who": "Bob"}]'])
def test_a_column_that_was_renamed_since_is_told(engine: Engine, tmp_path: Path, file: str) -> None:
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE public.people (id integer PRIMARY KEY, who text)")
        connection.execute("INSERT INTO people VALUES (2, 'Other')")
        declared = reflection.reflect(connection, "public.people")
    job = imported(engine, declared.name, written(tmp_path / "people", file), declaration=declared)
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE people RENAME id TO number")
    with pytest.raises(Conflict) as caught:
        replayed(engine, job)
    assert str(caught.value) == (
        f"the records of {job.job_key} were read for 1 column that public.people has not any more: id."
        f" `bulk import errors {job.job_key} --as-source --to FILE` writes them to a file; import that with --map,"
        " which says where its fields go now, or with --ignore"
    )
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE people RENAME number TO id")
        connection.execute("DELETE FROM people WHERE id = 2")
    assert replayed(engine, job).status is JobState.COMPLETED
