"""Filters: whatever is in a value, it is only ever a value."""

import uuid

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.exports import filters
from bulk_pipelines.exports.filters import Filter, Operator
from bulk_pipelines.exports.read import query
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines_tests.scenes.export_files import exported, insert, read
from bulk_pipelines_tests.scenes.today import examples

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
HOSTILE = st.sampled_from(
    [
        "'; DROP TABLE users; --",
        "' OR '1'='1",
        "\\'; DROP TABLE users; --",
        "\\",
        "%s %(name)s %% %",
        "$1 $$ $tag$",
        "{} :name ?",
        "E'\\x27'",
        "/* -- */",
        "'''",
        "x') TO PROGRAM 'false' --",
        "‘’ʼ＇",
    ]
)
OPERATORS = st.sampled_from([each for each in Operator if each not in filters.SETS | filters.NULLS])


@given(st.builds(Filter, st.just("name"), OPERATORS, st.tuples(ANY_TEXT)))
def test_a_filter_of_one_value_reads_back(condition: Filter) -> None:
    assert filters.parse(str(condition)) == condition


@given(
    st.builds(Filter, st.just("name"), st.sampled_from(list(filters.SETS)), st.lists(ANY_TEXT, min_size=1).map(tuple))
)
def test_a_filter_of_many_values_reads_back(condition: Filter) -> None:
    assert filters.parse(str(condition)) == condition


@pytest.fixture
def with_one_user(engine: Engine) -> Engine:
    insert(engine, "users", [{"id": uuid.UUID(int=1), "email": "a@b.c", "name": "Ann", "role": "reader"}])
    return engine


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=HOSTILE | ANY_TEXT, operator=OPERATORS, other=HOSTILE | ANY_TEXT)
@example(value="'; DROP TABLE users; --", operator=Operator.EQUAL, other="\\")
def test_values_stay_values(with_one_user: Engine, value: str, operator: Operator, other: str) -> None:
    """PostgreSQL, asked with the values bound by the protocol, gives the same answer as our composed statement."""
    conditions = [Filter("name", operator, (value,)), Filter("email", Operator.NOT_IN, (value, other))]
    if operator is Operator.CONTAINS and not any(map(str.isalnum, value)):
        conditions = conditions[1:]
    request = ExportRequest("users", filters=tuple(conditions))
    with pool.transaction(with_one_user) as connection:
        composed = query.within(query.composed(query.rows(request), connection), None)
        assert bound(connection, "SELECT %s::text", value) == value
        ours = connection.execute(composed.encode()).fetchall()
        compiled = query.rows(request).compile(dialect=query.DIALECT, compile_kwargs={"render_postcompile": True})
        statement = query.within(str(compiled), None).encode()
        assert ours == connection.execute(statement, compiled.params).fetchall()
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (1,)


def bound(connection: psycopg.Connection[object], statement: str, value: str) -> object:
    row = connection.execute(statement.encode(), [value]).fetchone()
    assert isinstance(row, tuple)
    return row[0]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(HOSTILE | ANY_TEXT.map(lambda text: "n" + text), min_size=1, max_size=8, unique=True))
def test_exactly_the_rows_asked_for(with_one_user: Engine, names: list[str]) -> None:
    with pool.transaction(with_one_user) as connection:
        connection.execute("DELETE FROM users")
    insert(
        with_one_user,
        "users",
        [{"id": uuid.UUID(int=n), "email": f"{n}@b.c", "name": name, "role": "reader"} for n, name in enumerate(names)],
    )
    for format_ in (Format.CSV, Format.PARQUET):
        one = ExportRequest("users", format_, ("name",), (Filter("name", Operator.EQUAL, (names[0],)),))
        assert read(with_one_user, one, exported(with_one_user, one)) == [(names[0],)]
        none = ExportRequest("users", format_, ("name",), (Filter("name", Operator.NOT_IN, tuple(names)),))
        assert read(with_one_user, none, exported(with_one_user, none)) == []
