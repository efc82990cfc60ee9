"""What imports leave behind goes when it is old and nothing can be tried again with it; a dry run says so before."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.imports import retention
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.servers.processes import Place

Prune = Callable[[Engine, Settings, bool], int]


def finished(engine: Engine, *, days: int | None, dlq: int = 0, more: str = "") -> tuple[int, str]:
    """An import that has been over for so many days (None: at work), with as many ranges in the DLQ."""
    with transaction(engine) as connection:
        row = connection.execute(
            """INSERT INTO job (kind, owner, origin, request_hash, status, started_at, planned_at, finished_at, result,
                   total_items, dlq_items, succeeded_items, params)
               VALUES ('import_users', 'me', 'api', '', %(status)s, now(), now(),
                   now() - make_interval(days => %(days)s), '{}', 5, %(dlq)s, 5 - %(dlq)s, '{}')
               RETURNING job_id, job_key""",
            {"status": "RUNNING" if days is None else "COMPLETED_WITH_ERRORS", "days": days, "dlq": dlq},
        ).fetchone()
        assert row is not None
        if more:
            connection.execute(f"UPDATE job SET {more} WHERE job_id = %s", [row[0]])
    return row[0], row[1]


def reject(engine: Engine, job_id: int, count: int) -> None:
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO rejected_row (job_id, line, raw, reasons)"
            """ SELECT %s, line, 'x', '[{"code": "bad"}]' FROM generate_series(1, %s) AS line""",
            [job_id, count],
        )


def rejects_left(engine: Engine) -> dict[int, int]:
    with transaction(engine) as connection:
        return dict(connection.execute("SELECT job_id, count(*) FROM rejected_row GROUP BY 1").fetchall())


def dry_and_wet(prune: Prune, engine: Engine, chosen: Settings) -> int:
    """A dry run removes nothing, and says what the real one then removes; a second one finds nothing more."""
    told = prune(engine, chosen, True)
    assert prune(engine, chosen, True) == told
    assert prune(engine, chosen, False) == told
    assert prune(engine, chosen, False) == prune(engine, chosen, True) == 0
    return told


def test_rejects_go_by_the_age_of_their_import(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REJECTS_AT_A_TIME", 7)
    old, _ = finished(engine, days=31)
    fresh, _ = finished(engine, days=29)
    at_work, _ = finished(engine, days=None)
    to_redrive, _ = finished(engine, days=31, dlq=1)
    past_redriving, _ = finished(engine, days=31, dlq=1, more="items_pruned_at = now()")
    not_wound_up, _ = finished(engine, days=31, more="result = NULL, status = 'CANCELLED'")
    for job_id in (old, fresh, at_work, to_redrive, past_redriving, not_wound_up, 999_999):
        reject(engine, job_id, 20)
    assert dry_and_wet(retention.prune_rejects, engine, Settings()) == 60
    assert rejects_left(engine) == dict.fromkeys((fresh, at_work, to_redrive, not_wound_up), 20)


def test_rejects_do_not_outlive_their_job(engine: Engine) -> None:
    job_id, _ = finished(engine, days=11)
    reject(engine, job_id, 3)
    assert dry_and_wet(retention.prune_rejects, engine, Settings(keep_rejects_days=90, keep_jobs_days=10)) == 3


def test_landed_files_go_by_the_age_of_their_import(engine: Engine, tmp_path: Path) -> None:
    chosen = Settings(home=tmp_path)
    keys = {
        "old": finished(engine, days=8)[1],
        "fresh": finished(engine, days=6)[1],
        "at work": finished(engine, days=None)[1],
        "to redrive": finished(engine, days=8, dlq=1)[1],
        "past redriving": finished(engine, days=8, dlq=1, more="items_pruned_at = now()")[1],
        "another installation's": "J20200101_000001",
    }
    keys["replayed at this moment"] = finished(engine, days=8)[1]
    finished(engine, days=None, more=f"""params = '{{"replay_of": "{keys["replayed at this moment"]}"}}'""")
    for key in keys.values():
        for name in (f"{key}/000001", f"{key}/000002", f"{key}-rejects.csv"):
            path = tmp_path / "landed" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    (tmp_path / "landed" / "notes.txt").write_text("somebody else's")
    assert dry_and_wet(retention.prune_landed, engine, chosen) == 6
    gone = {keys["old"], keys["past redriving"]}
    left = {path.name.removesuffix("-rejects.csv") for path in (tmp_path / "landed").iterdir()}
    assert left == (set(keys.values()) - gone) | {"notes.txt"}, "no empty folder stays either"


def test_where_nothing_was_ever_landed_nothing_goes(engine: Engine, tmp_path: Path) -> None:
    assert dry_and_wet(retention.prune_landed, engine, Settings(home=tmp_path)) == 0


def test_landed_files_in_s3(engine: Engine, s3_bucket: Place) -> None:
    s3 = s3_bucket.access.s3
    chosen = Settings(
        landing_url=f"{s3_bucket.url}/landed",
        s3_endpoint=s3.endpoint,
        s3_access_key_id=s3.access_key_id,
        s3_secret_access_key=s3.secret_access_key,
    )
    old, fresh = finished(engine, days=8)[1], finished(engine, days=6)[1]
    with locations.folder(chosen.landing_url, s3_bucket.access) as storage:
        for key in (old, fresh):
            for number in range(3):
                storage.put(f"{key}/{number:06}", b"x")
        assert dry_and_wet(retention.prune_landed, engine, chosen) == 3
        assert {entry.key.split("/")[0] for entry in storage.entries()} == {fresh}
