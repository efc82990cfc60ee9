"""The files of an import are landed by few logins, however many they are."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import ImportRequest, Options, RequestedFile
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.opening import connections
from bulk_pipelines_tests.servers import processes
from bulk_pipelines_tests.servers.processes import LoginServer

FILES = 40


def dropped(server: LoginServer, monkeypatch: pytest.MonkeyPatch, home: Path) -> ImportRequest:
    """Put files on the server, and return the request for an import of them."""
    place = server.place()
    for name, value in {
        "BULK_HOME": str(home),
        "BULK_LOGIN_PASSWORD": place.access.login.password,
        "BULK_SFTP_KNOWN_HOSTS": place.access.login.known_hosts,
    }.items():
        monkeypatch.setenv(name, value)
    with locations.folder(place.url, place.access) as storage:
        for number in range(FILES):
            storage.put(f"{number % 3}/{number:02}.csv", f"email,name,role\n{number:02}@a.org,A,reader\n".encode())
        files = tuple(RequestedFile(storage.url_of(each.key), version=each.version) for each in storage.entries())
    return Options("users").request(files)


def landed(engine: Engine, request: ImportRequest) -> list[str]:
    """Plan an import, and return the record of each file as it was landed."""
    with transaction(engine) as connection:
        job = jobs.start(connection, submission.submit(connection, request, Sender("me", "cli")).job.job_key)
    planning.plan(engine, job)
    with transaction(engine) as connection:
        rows = connection.execute("SELECT landed FROM import_file WHERE job_id = %s", [job.job_id]).fetchall()
    return sorted(Path(url).read_text().splitlines()[1] for (url,) in rows)


@pytest.mark.parametrize(("kind", "most"), [("ftp_server", planning.FILES_AT_ONCE), ("sftp_server", 1)])
def test_a_plan_lands_all_its_files_by_few_logins(
    kind: str,
    most: int,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    server: LoginServer = request.getfixturevalue(kind)
    wanted = dropped(server, monkeypatch, tmp_path / "home")
    before = connections[server.port]
    assert landed(engine, wanted) == [f"{number:02}@a.org,A,reader" for number in range(FILES)]
    assert 1 <= connections[server.port] - before <= most


def test_a_server_that_allows_two_logins_at_a_time_gives_all_its_files(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    with processes.other_ftp(folder, "crowded") as server:

        def logins() -> int:
            return (folder / "log").read_text().count("logged in")

        wanted = dropped(server, monkeypatch, tmp_path / "home")
        before = logins()
        assert before, "the server tells of logins"
        assert landed(engine, wanted) == [f"{number:02}@a.org,A,reader" for number in range(FILES)]
        assert 1 <= logins() - before <= 2
