"""A database as the last version before the schema of our own left it: our tables stand among those of people."""

from pathlib import Path

from bulk_pipelines.database import migrations, pool
from bulk_pipelines.database.migrations import MIGRATIONS, Backend

LAST = "0025"


def made_by_the_last_version(url: str, folder: Path, schema: str = "public") -> None:
    """Apply the migrations of that version where people look first, as it did."""
    for file in MIGRATIONS.glob("*.sql"):
        if file.name[:4] <= LAST:
            (folder / file.name).write_text(file.read_text())
    with pool.single(url) as connection:
        connection.execute(f'SET search_path = "{schema}"'.encode())
        yoyo = Backend(connection)
        yoyo.ensure_internal_schema_updated()
        for migration in yoyo.to_apply(migrations.migrations(folder)):
            migrations.apply_one(yoyo, migration)
