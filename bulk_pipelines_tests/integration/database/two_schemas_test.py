"""A schema of this program that is made anew, in a database whose tables have rows of imports from before."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports.afterwards import undo
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines_tests.scenes.import_jobs import Imports

In = Callable[[str], Imports]


@pytest.fixture
def inside(empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[In]:
    """Return a function that goes into a schema, which is made if need be, and returns imports there."""
    pools = {}

    def go(schema: str) -> Imports:
        monkeypatch.setenv("BULK_SCHEMA", schema)
        monkeypatch.setenv("BULK_HOME", str(tmp_path / schema))
        if schema not in pools:
            migrations.apply(empty_database_url)
            samples.furnish(empty_database_url)
            pools[schema] = pool.connect(empty_database_url)
        return Imports(pools[schema], tmp_path, known_kinds())

    yield go
    for each in pools.values():
        each.dispose()


def users(*names: str) -> str:
    return "email,name,role\n" + "".join(f"{name}@b.org,{name},reader\n" for name in names)


def loaded(imports: Imports, *names: str) -> Job:
    job = imports.worked(imports.planned(users(*names)))
    assert job.status == "COMPLETED", job.last_error
    return job


def test_what_the_first_has_loaded_is_not_taken_back_by_the_second(inside: In) -> None:
    first = loaded(inside("first"), "ann", "bob")
    second = inside("second")
    job = loaded(second, "eve")
    assert undo.undo(second.engine, job, None) == 1
    assert set(second.users().values()) == {"ann", "bob"}
    assert undo.undo(inside("first").engine, first, None) == 2


def test_what_was_loaded_before_the_schema_was_dropped_is_not_taken_back(inside: In, empty_database_url: str) -> None:
    loaded(inside("bulk"), "ann", "bob")
    with pool.single(empty_database_url) as connection:
        connection.execute("DROP SCHEMA bulk CASCADE")
        migrations.apply(empty_database_url)
    anew = inside("bulk")
    job = loaded(anew, "eve")
    with pytest.raises(Conflict, match="changes of rows of users are not noted"):
        undo.undo(anew.engine, job, None)
    with pool.single(empty_database_url) as connection:
        connection.execute(
            "CREATE TRIGGER noted BEFORE UPDATE ON users FOR EACH ROW WHEN (OLD.import_job IS NOT NULL)"
            " EXECUTE FUNCTION bulk.mark_revised()"
        )
    assert undo.undo(anew.engine, job, None) == 1
    assert set(anew.users().values()) == {"ann", "bob"}
