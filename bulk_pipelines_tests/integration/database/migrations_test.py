"""Migrations: what is applied, what is refused, and that the real ones are well formed."""

import re
import shutil
from pathlib import Path

import pytest

from bulk_pipelines.database import migrations, pool
from bulk_pipelines.errors import BulkError

NAME = re.compile(r"^(\d{4})_[a-z0-9]+(_[a-z0-9]+)*\.sql$")


def files(tmp_path: Path, **content: str) -> Path:
    for name, text in content.items():
        (tmp_path / f"{name}.sql").write_text(text)
    return tmp_path


def query(url: str, text: str) -> list[tuple[object, ...]]:
    with pool.single(url) as connection:
        return connection.execute(text).fetchall()


def test_apply_runs_what_is_missing_in_order(empty_database_url: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0002_b="INSERT INTO a VALUES (2);", m0001_a="CREATE TABLE a (n int);")
    assert migrations.pending(empty_database_url, directory) == ["m0001_a", "m0002_b"]
    assert migrations.apply(empty_database_url, directory) == ["m0001_a", "m0002_b"]
    assert migrations.apply(empty_database_url, directory) == []
    files(tmp_path, m0003_c="INSERT INTO a VALUES (3);")
    assert migrations.pending(empty_database_url, directory) == ["m0003_c"]
    assert migrations.apply(empty_database_url, directory) == ["m0003_c"]
    assert query(empty_database_url, "SELECT n FROM a ORDER BY n") == [(2,), (3,)]


def test_looking_writes_nothing(empty_database_url: str, tmp_path: Path) -> None:
    migrations.pending(empty_database_url, files(tmp_path, m0001_a="CREATE TABLE a (n int);"))
    assert query(empty_database_url, "SELECT tablename FROM pg_tables WHERE schemaname IN ('public', 'bulk')") == []


def test_a_broken_migration_leaves_nothing_behind_and_the_good_ones_stay(
    empty_database_url: str, tmp_path: Path
) -> None:
    directory = files(
        tmp_path,
        m0001_good="CREATE TABLE good (n int);",
        m0002_bad="CREATE TABLE bad (n int); INSERT INTO good VALUES (1); SELECT 1 / 0;",
    )
    with pytest.raises(BulkError, match="migration m0002_bad failed and left nothing behind: division by zero"):
        migrations.apply(empty_database_url, directory)
    assert migrations.pending(empty_database_url, directory) == ["m0002_bad"]
    assert query(empty_database_url, "SELECT to_regclass('bad')::text, count(*) FROM good") == [(None, 0)]
    (directory / "m0002_bad.sql").write_text("CREATE TABLE bad (n int);")
    assert migrations.apply(empty_database_url, directory) == ["m0002_bad"]


def test_functions_comments_and_percent_signs_survive(empty_database_url: str, tmp_path: Path) -> None:
    directory = files(
        tmp_path,
        m0001_a="""
            -- A comment; with a semicolon.
            CREATE TABLE a (n int, t text DEFAULT '100 %; :name');
            CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF new.n > 1 THEN new.n := 1; END IF;
                RETURN new;
            END;
            $$;
            CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION f();
            DO $body$ BEGIN INSERT INTO a VALUES (7); END $body$;
            CREATE FUNCTION g(x int) RETURNS int LANGUAGE sql RETURN x + 1;
        """,
    )
    migrations.apply(empty_database_url, directory)
    assert query(empty_database_url, "SELECT n, t, g(1) FROM a") == [(1, "100 %; :name", 2)]


def test_what_a_migration_selects_is_not_printed(
    empty_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    migrations.apply(empty_database_url, files(tmp_path, m0001_a="SELECT 'noise';"))
    assert capsys.readouterr().out == ""


def test_migrations_of_a_newer_program_are_reported(empty_database_url: str, tmp_path: Path) -> None:
    directory = files(tmp_path, m0001_a="CREATE TABLE a (n int);", m0002_b="CREATE TABLE b (n int);")
    migrations.apply(empty_database_url, directory)
    (directory / "m0002_b.sql").unlink()
    assert migrations.state(empty_database_url, directory) == migrations.State(["m0001_a"], [], ["m0002_b"])


def test_the_schema_is_the_migrations_applied(database_url: str, empty_database_url: str) -> None:
    """Whoever starts today has what whoever migrated step by step has, and both have all of it."""
    assert migrations.pending(database_url) == []
    assert migrations.apply(empty_database_url) == [path.stem for path in real_files()]
    assert schema(database_url) == schema(empty_database_url)
    assert any(kind == "table" for kind, *_ in schema(database_url))


def test_the_names_are_numbered_without_gaps() -> None:
    names = [path.name for path in real_files()]
    assert all(NAME.match(name) for name in names), names
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


def test_nothing_else_lies_among_the_migrations() -> None:
    assert [path.name for path in migrations.MIGRATIONS.iterdir() if not NAME.match(path.name)] == []


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in sorted(migrations.MIGRATIONS.iterdir())])
def test_every_migration_is_one_transaction(path: Path) -> None:
    """A killed process must find either all of a migration or nothing of it."""
    text = re.sub(r"\$(\w*)\$.*?\$\1\$", "", path.read_text(), flags=re.DOTALL)
    assert not re.search(r"^--\s*transactional", text, re.MULTILINE | re.IGNORECASE)
    assert not re.search(r"^\s*(BEGIN|COMMIT|ROLLBACK|START TRANSACTION)\b[^;]*;", text, re.MULTILINE | re.IGNORECASE)
    assert not re.search(r"\bCONCURRENTLY\b|^\s*VACUUM\b", text, re.MULTILINE | re.IGNORECASE)


def real_files() -> list[Path]:
    return sorted(migrations.MIGRATIONS.glob("*.sql"))


def apply_before(number: str, url: str, folder: Path) -> None:
    """Apply the migrations before the one with this number."""
    for file in real_files():
        if file.name < number:
            shutil.copy(file, folder)
    migrations.apply(url, folder)


def schema(url: str) -> list[tuple[object, ...]]:
    """Every table, column, constraint, index and function of ours, as the database describes them."""
    return query(
        url,
        """
        SELECT 'table', relname, relkind::text, reloptions::text FROM pg_class
        WHERE relnamespace = 'bulk'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
        UNION ALL
        SELECT 'column', table_name, column_name, concat_ws(' ', udt_name, is_nullable, column_default)
        FROM information_schema.columns WHERE table_schema = 'bulk'
        UNION ALL
        SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'bulk'::regnamespace
        UNION ALL
        SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'bulk'
        UNION ALL
        SELECT 'function', proname, '', pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'bulk'::regnamespace AND prokind = 'f'
        ORDER BY 1, 2, 3, 4
        """,
    )


BEFORE_CLAIMS = """
INSERT INTO job (kind, owner, origin, request_hash, status, started_at, total_items, pending_items, running_items,
    retry_wait_items)
VALUES ('work', 'me', 'cli', '', 'RUNNING', now(), 5, 1, 3, 1);
INSERT INTO job_item (job_id, item_key, owner, kind, status, lease_owner, lease_until, due_at)
SELECT job_id, item_key, 'me', 'work', held.status::item_status, worker, now() + interval '1 hour', due_at
FROM job,
    (VALUES ('a', 'RUNNING', 'w1', NULL::timestamptz), ('b', 'RUNNING', 'w1', now()), ('c', 'RUNNING', 'w2', NULL))
    AS held (item_key, status, worker, due_at);
INSERT INTO job_item (job_id, item_key, owner, kind, status, due_at)
SELECT job_id, item_key, 'me', 'work', waiting.status::item_status, due_at
FROM job, (VALUES ('d', 'PENDING', NULL), ('e', 'RETRY_WAIT', now())) AS waiting (item_key, status, due_at)
"""


def test_what_was_running_when_claims_came_is_held_and_found(empty_database_url: str, tmp_path: Path) -> None:
    apply_before("0012", empty_database_url, tmp_path)
    with pool.single(empty_database_url) as connection:
        connection.execute(BEFORE_CLAIMS)
    assert "0012_claims" in migrations.apply(empty_database_url)
    assert query(
        empty_database_url, "SELECT item_key, status::text, item.state::text FROM job_item AS item ORDER BY 1"
    ) == [
        ("a", "PENDING", "RUNNING"),
        ("b", "RETRY_WAIT", "RUNNING"),
        ("c", "PENDING", "RUNNING"),
        ("d", "PENDING", "PENDING"),
        ("e", "RETRY_WAIT", "RETRY_WAIT"),
    ]
    named = "SELECT claim.owner, item_key FROM claim JOIN job_item ON item_id = ANY (item_ids) ORDER BY 2"
    assert query(empty_database_url, named) == [("w1", "a"), ("w1", "b"), ("w2", "c")]


BEFORE_FILES = """
INSERT INTO job (kind, owner, origin, request_hash, params) VALUES
('import_users', 'box', 'sensor', '', '{"resource": "users", "mode": "insert", "files": [
    {"source": "ftp://me:secret@box/a.csv", "size": 5, "known_sha256": ["ab", "cd"], "version": "1-5"},
    {"source": "ftp://me:secret@box/b.csv", "size": 7, "known_sha256": [], "version": "2-7"},
    {"source": "ftp://me:secret@box/c.csv", "size": 7, "known_sha256": [], "version": "2-7"}]}'),
('import_users', 'me', 'cli', '', '{"resource": "users", "files": [
    {"source": "/tmp/users@home.csv", "size": null, "known_sha256": [], "format": "csv"}]}'),
('export_users', 'me', 'cli', '', '{"files": "no list"}');
INSERT INTO import_file (job_id, number, source, landed, sha256)
SELECT job_id, 1, 'ftp://me@box/a.csv', '/landed/a', 'ef' FROM job WHERE owner = 'box';
INSERT INTO file_drop (source, path, version, size, modified_at, resource, status, job_id, ended_at)
SELECT 'box', path, version, 1, now() + after * interval '1 second', 'users', dropped.status::drop_status, job_id,
    ended_at
FROM job,
    (VALUES ('b.csv', '2-7', 2, 'TAKEN', NULL::timestamptz), ('a.csv', '1-5', 1, 'FAILED', now()),
        ('c.csv', '2-7', 3, 'TAKEN', NULL)) AS dropped (path, version, after, status, ended_at)
WHERE owner = 'box'
"""


def test_what_was_submitted_when_files_became_rows_goes_on(empty_database_url: str, tmp_path: Path) -> None:
    apply_before("0015", empty_database_url, tmp_path)
    with pool.single(empty_database_url) as connection:
        connection.execute(BEFORE_FILES)
    assert "0015_import_files" in migrations.apply(empty_database_url)
    assert query(
        empty_database_url,
        "SELECT number, import_file.source, address, wanted_size, wanted_version, format, known_sha256, landed"
        " FROM import_file ORDER BY job_id, number",
    ) == [
        (1, "ftp://me@box/a.csv", "ftp://me:secret@box/a.csv", 5, "1-5", None, ["ab", "cd"], "/landed/a"),
        (2, "ftp://…", "ftp://me:secret@box/b.csv", 7, "2-7", None, [], None),
        (3, "ftp://…", "ftp://me:secret@box/c.csv", 7, "2-7", None, [], None),
        (1, "/tmp/users@home.csv", "/tmp/users@home.csv", None, None, "csv", [], None),
    ]
    assert query(empty_database_url, "SELECT path, file_number FROM file_drop ORDER BY path") == [
        ("a.csv", 1),
        ("b.csv", 2),
        ("c.csv", 3),
    ]
    assert query(empty_database_url, "SELECT params FROM job ORDER BY job_id") == [
        ({"resource": "users", "mode": "insert", "file_count": 3, "size": 19},),
        ({"resource": "users", "file_count": 1, "size": None},),
        ({"files": "no list"},),
    ]
