"""Rows that refer to rows of their own table: which of them are loaded is a function of the file and the table, in
whatever order the batches come, and whatever else is refused. The same holds for which of them are taken back."""

import itertools
import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.imports.afterwards import undo
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines_tests.scenes.import_runs import Run, prepared
from bulk_pipelines_tests.scenes.today import examples

JOBS = itertools.count(1)
TABLE = """
CREATE SCHEMA IF NOT EXISTS odd;
DROP TABLE IF EXISTS odd.pets, odd.people;
CREATE TABLE odd.people (
    id integer PRIMARY KEY, code text UNIQUE,
    boss integer REFERENCES odd.people, mate text REFERENCES odd.people (code),
    age integer CHECK (age <> 5)
);
CREATE TABLE odd.pets (owner integer REFERENCES odd.people);
CREATE OR REPLACE FUNCTION odd.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.age = 6 THEN RAISE 'nobody is six'; END IF; RETURN NEW; END $$;
INSERT INTO odd.people VALUES (1, 'a', NULL, NULL, 1), (2, 'b', 1, 'a', 1);
"""
TRIGGER = "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON odd.people FOR EACH ROW EXECUTE FUNCTION odd.refuse()"
TRACED = "SELECT trace_imports('odd.people')"
HELD = {("id", "1"), ("id", "2"), ("code", "a"), ("code", "b")}
CODES = ["", "", *"acdefghijklm"]
Row = tuple[str, str, str, str, str]
a_seed = given(seed=st.integers(0, 1 << 30))
several = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])


def drawn(chance: random.Random) -> list[Row]:
    """Draw people: their ids, codes, bosses, mates and ages. The table refuses some ages."""
    with_code, with_boss, with_mate, odd = (chance.random() for _ in range(4))
    ids = [str(number) for number in range(3, 3 + chance.randint(2, 45))]
    people = [
        (
            chance.choice(ids) if chance.random() < 0.95 else "1",
            chance.choice(CODES) if chance.random() < with_code else "",
            chance.choice([*ids, "2"]) if chance.random() < with_boss else "",
            chance.choice(CODES) if chance.random() < with_mate else "",
            chance.choice([*["1"] * 20, "5", "6"]) if chance.random() < odd else "",
        )
        for _ in range(chance.randint(2, 40))
    ]
    if chance.random() < 0.5:
        people = list({row[0]: row for row in people}.values())
        chance.shuffle(people)
    return people


def expected(rows: list[Row], six: bool) -> tuple[set[int], dict[int, list[str]]]:
    """Return the lines that are loaded, and the codes of the others: worked out record by record."""
    owners: dict[tuple[str, str], int] = {}
    codes: dict[int, list[str]] = {line: [] for line in range(2, len(rows) + 2)}
    for line, (identity, code, *_) in enumerate(rows, 2):
        for key in (("id", identity), ("code", code)):
            if key[1] and (owners.setdefault(key, line) != line or key in HELD):
                codes[line].append("duplicate_key")
    there = {
        line for line, row in enumerate(rows, 2) if not codes[line] and row[4] != "5" and not (six and row[4] == "6")
    }
    while True:
        ids = {"1", "2", ""} | {rows[line - 2][0] for line in there}
        names = {"a", "b", ""} | {rows[line - 2][1] for line in there}
        missing = {
            line: ["invalid_reference"] * ((boss not in ids) + (mate not in names))
            for line, (_, _, boss, mate, _) in enumerate(rows, 2)
        }
        lost = {line for line in there if missing[line]}
        if not lost:
            break
        there -= lost
    return there, {
        line: sorted(codes[line] + missing[line]) or ["refused_by_table"] for line in codes if line not in there
    }


def made(engine: Engine, *more: str) -> Resource:
    with pool.transaction(engine) as connection:
        for statement in (TABLE, *more):
            connection.execute(statement.encode(), prepare=False)
        return reflection.reflect(connection, "odd.people")


def run(engine: Engine, path: Path, declared: Resource, rows: list[Row], chance: random.Random, mode: Mode) -> Run:
    path.write_text("id,code,boss,mate,age\n" + "".join(",".join(row) + "\n" for row in rows))
    size, each = chance.randint(1, 20), chance.choice([30, 60, 200, 5000])
    found = prepared(engine, path, declared, mode, job_id=next(JOBS), range_bytes=each, rows=size, chance=chance)
    return found.load().reconcile()


def ids_of(engine: Engine) -> set[str]:
    with pool.transaction(engine) as connection:
        return {number for (number,) in connection.execute("SELECT id::text FROM odd.people WHERE id > 2")}


@several
@a_seed
def test_what_is_loaded_is_what_the_file_says(engine: Engine, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows, six = drawn(chance), chance.random() < 0.5
    declared = made(engine, *[TRIGGER] * six, *[TRACED] * (chance.random() < 0.5))
    mode = chance.choice([Mode.INSERT, Mode.INSERT, Mode.VALIDATE])
    came = run(engine, tmp_path / "people.csv", declared, rows, chance, mode)
    there, bad = expected(rows, six)
    assert {line: sorted(codes) for line, codes in came.codes().items()} == bad
    assert ids_of(engine) == ({rows[line - 2][0] for line in there} if mode is Mode.INSERT else set())
    assert came.counts.loaded + came.counts.valid == len(there)
    assert came.counts.rejected == len(bad)


@several
@a_seed
def test_what_is_taken_back_is_all_that_nobody_else_needs(engine: Engine, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = [row for row in {row[0]: row for row in drawn(chance)}.values() if row[0] != "1"]
    declared = made(engine, TRACED)
    came = run(engine, tmp_path / "people.csv", declared, rows, chance, Mode.INSERT)
    ids = sorted(ids_of(engine))
    stays = set(chance.sample(ids, min(len(ids), chance.choice([0, 0, 1, 3]))))
    with pool.transaction(engine) as connection:
        for number in stays:
            change = chance.choice(["INSERT INTO odd.pets VALUES (%s)", "UPDATE odd.people SET age = 9 WHERE id = %s"])
            connection.execute(change.encode(), [int(number)])
        people = connection.execute(
            "SELECT id::text, boss::text, (SELECT id::text FROM odd.people m WHERE m.code = p.mate) FROM odd.people p"
        ).fetchall()
        needed = {each: up for each, *up in people}
    while more := {up for each in stays for up in needed[each] if up} - stays:
        stays |= more
    with pool.transaction(engine) as connection:
        counted = undo.count(connection, declared, came.context.job_id)
    removed = sum(undo.take_back(lambda: pool.transaction(engine), declared, came.context.job_id))
    assert ids_of(engine) == stays - {"1", "2"}
    assert removed == counted.free == len(ids) - len(stays - {"1", "2"})
