"""A table or a role that an import cannot work with is told before the first row, or at once."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines_tests.scenes.import_jobs import Imports, counts, file_of, prepare

# Whole imports


PEOPLE = [(f"{'bad' if number == 3 else 'user'}{number}@x.org", "Name", "reader") for number in range(6)]


MISFITS = {
    "ALTER TABLE users ALTER role TYPE bytea USING convert_to(role, 'UTF8')": "role is bytea, but is declared as text",
    "ALTER TABLE users RENAME name TO title": "it has no column name; its column title needs a value",
    "ALTER TABLE users ADD tenant int NOT NULL": "its column tenant needs a value, and no such column is declared",
    "ALTER TABLE bulk.users_aside DROP import_held, DROP email": "the table users_aside is not what the declaration of",
    "ALTER TABLE users ALTER active DROP DEFAULT, ALTER active TYPE int USING 1": "column active is integer",
    "DROP TABLE users CASCADE": "there is no table users in this database: `bulk resources sample`",
}


@pytest.mark.parametrize("change", MISFITS)
def test_a_table_that_does_not_fit_is_told_before_the_first_row(imports: Imports, change: str) -> None:
    prepare(
        imports.engine, f"DROP TRIGGER faulty ON users; ALTER TABLE users DROP CONSTRAINT users_role_is_known; {change}"
    )
    with pytest.raises(InvalidInput) as raised:
        imports.planned(file_of(*PEOPLE))
    assert MISFITS[change] in str(raised.value)


@pytest.mark.parametrize(
    ("revoked", "said"),
    [
        ("TEMPORARY ON DATABASE {database}", "may not make temporary tables in the database {database}"),
        ("USAGE ON LANGUAGE plpgsql", "may not use the language plpgsql"),
    ],
)
def test_a_role_that_could_not_find_refused_rows_is_told_before_the_first_row(
    imports: Imports, importer: Engine, revoked: str, said: str
) -> None:
    """The lack of a right would else be noticed only when a batch has a conflict, and the whole range would be
    buried."""
    database = importer.url.database
    prepare(
        imports.engine,
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA bulk TO importer; REVOKE {revoked} FROM PUBLIC".format(
            database=database
        ),
    )
    with pytest.raises(InvalidInput) as raised:
        replace(imports, engine=importer).planned(file_of(*PEOPLE))
    assert said.format(database=database) in str(raised.value)


@pytest.mark.parametrize(
    "change", ["ALTER active DROP DEFAULT, ALTER active TYPE int USING 1", "RENAME name TO title", "DROP name"]
)
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_table_that_is_changed_meanwhile_buries_the_ranges_at_once(imports: Imports, change: str, mode: str) -> None:
    patient = replace(imports, kinds=KINDS)
    job = patient.planned(file_of(*PEOPLE), mode=mode)
    prepare(imports.engine, f"ALTER TABLE users {change}")
    job = patient.worked(job)
    assert job.status is JobState.FAILED
    assert "not what the declaration of users says" in (job.last_error or "")
    if mode == "insert":
        assert imports.query("SELECT DISTINCT attempt_count, error_class FROM job_item") == [(1, "permanent")]
        assert f"bulk dlq list --job {job.job_key}" in (job.last_error or "")


@pytest.mark.parametrize("mode", list(Mode))
def test_what_fits_in_another_type_is_taken(imports: Imports, mode: Mode) -> None:
    """Domains over domains and lengths refuse rows by the row; columns that fill themselves are no matter."""
    prepare(
        imports.engine,
        "CREATE DOMAIN short AS varchar(200); CREATE DOMAIN shorter AS short CHECK (length(value) < 100);"
        "ALTER TABLE users ALTER name TYPE shorter, ALTER role TYPE varchar(5);"
        "ALTER TABLE users ADD tenant int NOT NULL DEFAULT 1, ADD number bigint GENERATED ALWAYS AS IDENTITY",
    )
    rows = [(f"{number}@x.org", "N" * (150 if number == 3 else 9), "admin") for number in range(6)]
    options: dict[str, Any] = {"validate_only": True} if mode is Mode.VALIDATE else {"mode": mode}
    job = imports.worked(imports.planned(file_of(*rows, ("long@x.org", "Name", "reader")), **options))
    assert counts(job) == {"read": 7, "valid" if mode is Mode.VALIDATE else "loaded": 5, "rejected": 2}
    assert {line: codes for line, (_, codes) in imports.rejects(job).items()} == {
        5: ["refused_by_table"],
        8: ["refused_by_table"],
    }
