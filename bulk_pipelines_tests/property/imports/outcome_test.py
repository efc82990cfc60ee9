"""What an import comes to is a function of the file and the table: told by a model in plain Python, whatever the
ranges, the batches, their order, and the batches that were begun and lost."""

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.imports.context import Mode
from bulk_pipelines_tests.scenes.import_model import existing, inserted, records, reset, seeds, table, upserted, written
from bulk_pipelines_tests.scenes.import_runs import prepared
from bulk_pipelines_tests.scenes.today import examples


@pytest.mark.parametrize(
    ("mode", "match_on"), [("insert", None), ("validate", None), ("upsert", "id"), ("upsert", "email")]
)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=records.filter(bool), before=existing, cutting=st.tuples(st.integers(50, 2_000), st.integers(1, 30), seeds)
)
def test_the_outcome_is_what_the_model_says(
    engine: Engine,
    tmp_path: Path,
    mode: str,
    match_on: str | None,
    found: list[tuple[str, str, str]],
    before: list[tuple[str, str]],
    cutting: tuple[int, int, int],
) -> None:
    reset(engine, before)
    range_bytes, batch, seed = cutting
    path = tmp_path / "users.csv"
    lines = written(path, found)
    run = prepared(
        engine,
        path,
        mode=Mode(mode),
        match_on=match_on,
        range_bytes=range_bytes,
        rows=batch,
        chance=random.Random(seed),
    )
    run.load().reconcile()

    expected = upserted(lines, before, match_on) if match_on else inserted(lines, before)
    if mode == "validate":
        expected.table = {key: (email, "before", None) for key, email in before}
    assert table(engine) == expected.table
    assert run.codes() == expected.codes
    assert [raw for _, raw, _ in run.rejected()] == [
        ",".join((key, email, f"name {line}", role)).encode()
        for line, key, email, role in lines
        if line in expected.codes
    ]
    loaded = 0 if mode == "validate" else Counter(line is not None for _, _, line in expected.table.values())[True]
    valid = expected.valid if mode == "validate" else 0
    counts = run.counts
    assert (counts.read, counts.loaded, counts.rejected) == (len(lines), loaded, len(expected.codes))
    assert (counts.superseded, counts.valid, counts.waiting) == (expected.superseded, valid, 0)
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM users_aside").fetchone() == (0,)
