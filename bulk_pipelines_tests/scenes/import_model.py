"""A model in plain Python of what importing a small file of users comes to."""

import csv
import io
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.resources.users import USERS
from bulk_pipelines_tests.scenes.import_runs import rows

IDS = [str(uuid.UUID(int=number)) for number in range(8)]
EMAILS = [f"{name}@x.org" for name in "abcdefgh"]
COLUMNS = ["id", "email", "name", "role"]

ids = st.sampled_from(IDS)
emails = st.sampled_from(EMAILS)
record = st.tuples(ids, st.one_of(emails, emails.map(str.upper)), st.sampled_from(["reader"] * 5 + ["king"]))
seeds = st.integers(0, 2**32)
records = st.lists(record, max_size=25)
existing = st.lists(st.tuples(ids, emails), max_size=4, unique_by=(lambda row: row[0], lambda row: row[1]))


@dataclass
class Expected:
    """What the model says: the table as id → (email, name, line), and the codes of each rejected line."""

    table: dict[str, tuple[str, str, int | None]]
    codes: dict[int, list[str]] = field(default_factory=dict)
    superseded: int = 0
    valid: int = 0


def inserted(lines: list[tuple[int, str, str, str]], before: list[tuple[str, str]]) -> Expected:
    expected = Expected({key: (email, "before", None) for key, email in before})
    held_ids, held_emails = {key for key, _ in before}, {email for _, email in before}
    seen_ids: set[str] = set()
    seen_emails: set[str] = set()
    for line, key, email, role in lines:
        if role == "king":
            expected.codes[line] = ["invalid_role"]
            continue
        codes = ["duplicate_id"] if key in seen_ids | held_ids else []
        codes += ["duplicate_email"] if email.lower() in seen_emails | held_emails else []
        seen_ids.add(key)
        seen_emails.add(email.lower())
        if codes:
            expected.codes[line] = codes
        else:
            expected.table[key] = (email, f"name {line}", line)
            expected.valid += 1
    return expected


def upserted(lines: list[tuple[int, str, str, str]], before: list[tuple[str, str]], match_on: str) -> Expected:
    expected = Expected({key: (email, "before", None) for key, email in before})
    valid = [each for each in lines if each[3] != "king"]
    expected.codes = {line: ["invalid_role"] for line, *_, role in lines if role == "king"}
    matched = {line: key if match_on == "id" else email.lower() for line, key, email, _ in valid}
    other = {line: email.lower() if match_on == "id" else key for line, key, email, _ in valid}
    last = {matched[each[0]]: each for each in valid}
    expected.superseded = len(valid) - len(last)
    owners = {other[line]: line for line, *_ in sorted(last.values())}
    by_email = {email: key for key, email in before}
    by_id = dict(before)
    for line, key, email, _ in sorted(last.values()):
        if match_on == "id":
            taken = by_email.get(email.lower(), key) != key
            target, code = key, "duplicate_email"
        else:
            taken = key in by_id and email.lower() not in by_email
            target, code = by_email.get(email.lower(), key), "duplicate_id"
        if taken or owners[other[line]] != line:
            expected.codes[line] = [code]
        else:
            expected.table[target] = (email, f"name {line}", line)
    return expected


def written(path: Path, found: list[tuple[str, str, str]]) -> list[tuple[int, str, str, str]]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    lines = [(number, *each) for number, each in enumerate(found, 2)]
    writer.writerows((key, email, f"name {line}", role) for line, key, email, role in lines)
    path.write_text(text.getvalue())
    return lines


def reset(engine: Engine, before: list[tuple[str, str]]) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("DELETE FROM users; DELETE FROM rejected_row; DELETE FROM users_aside")
        for key, email in before:
            connection.execute(
                "INSERT INTO users (id, email, name, role) VALUES (%s, %s, 'before', 'reader')", [key, email]
            )


def table(engine: Engine) -> dict[str, tuple[str, str, int | None]]:
    return {str(row[0]): (row[1], row[2], row[7]) for row in rows(engine, USERS)}
