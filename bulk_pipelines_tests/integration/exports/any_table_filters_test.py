"""Filters on the columns of any table: each selects what PostgreSQL's own condition selects."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import streaming
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.resources import reflection

TABLE = """
SET LOCAL search_path = public;
CREATE DOMAIN wait AS interval CHECK (VALUE > '-1 day');
CREATE EXTENSION IF NOT EXISTS citext;
CREATE TYPE ship AS ENUM ('road', 'air', 'by sea');
CREATE DOMAIN fast AS ship CHECK (VALUE <> 'by sea');
CREATE TABLE odd (
    id integer PRIMARY KEY, opens time, zoned timetz, lasts wait, data jsonb, plain json, host inet, net cidr,
    numbers integer[], words varchar(9)[], spans interval[], points point[], "Order No, 50% off" integer,
    ship ship, fast fast, mail citext, code character(5), ships ship[], "Shipped by" ship
);
INSERT INTO odd VALUES
    (1, '08:00', '08:00+01', '1 day', '{"a": 1, "b": [1, 2]}', '{"a": 1}', '10.1.2.3', '10.0.0.0/8', '{1,2}',
        '{"a b",NULL}', '{1 day}', '{"(1,2)"}', 1, 'road', 'road', 'Ann@x.org', 'AB', '{air}', 'air'),
    (2, '24:00', '08:00+00', '36:00', '{"a": 2}', '[1]', '10.1.2.0/24', '192.168.0.0/16', '{{3},{2}}', '{}', '{}', '{}',
        2, 'air', 'air', 'bob@x.org', 'ABC', '{road}', 'road'),
    (3, '12:30:00.5', NULL, '-01:00', 'null', 'null', '2001:db8::1', '2001:db8::/32', NULL, '{c}', NULL, NULL, 3,
        'by sea', NULL, 'ANNA@x.org', '', NULL, NULL),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL);
"""
SELECTED = {
    "opens>=12:00": "opens >= '12:00'",
    "opens=24:00": "opens = '24:00'",
    "opens!=8:00": "opens IS DISTINCT FROM '08:00'",
    "opens in 08:00:00,12:30:00.5": "opens IN ('08:00', '12:30:00.5')",
    "zoned<08:00+00": "zoned < '08:00+00'",
    "lasts=24:00": "lasts = '24:00'::interval",
    "lasts>1 day 02:03:04": "lasts > '1 day 02:03:04'",
    "lasts<=P1DT2H": "lasts <= 'P1DT2H'",
    "lasts not in 1 day": "lasts NOT IN ('1 day') OR lasts IS NULL",
    'data~={"a": 1}': """data @> '{"a": 1}'""",
    'data~={"b": [2]}': """data @> '{"b": [2]}'""",
    "data~=null": "data @> 'null'",
    "plain~=1": "plain::jsonb @> '1'",
    "plain is null": "plain IS NULL",
    "host~=10.0.0.0/8": "host <<= '10.0.0.0/8'",
    "host=10.1.2.3": "host = '10.1.2.3'",
    "host>10.1.2.3": "host > '10.1.2.3'",
    "net~=0.0.0.0/0": "net <<= '0.0.0.0/0'",
    "net in 10.0.0.0/8,2001:db8::/32": "net IN ('10.0.0.0/8', '2001:db8::/32')",
    "numbers~=2": "2 = ANY (numbers)",
    "words~=a b": "'a b' = ANY (words)",
    "spans~=24:00": "'24:00'::interval = ANY (spans)",
    "numbers is not null": "numbers IS NOT NULL",
    '"Order No, 50% off">=2': '"Order No, 50% off" >= 2',
    '"Order No, 50% off" in 1,3': '"Order No, 50% off" IN (1, 3)',
    "ship=air": "ship = 'air'",
    "ship!=air": "ship IS DISTINCT FROM 'air'",
    "ship>road": "ship > 'road'",
    "ship in road,by sea": "ship IN ('road', 'by sea')",
    "ship not in road": "ship NOT IN ('road') OR ship IS NULL",
    "ship^=by": "ship::text LIKE 'by%'",
    "fast=road": "fast::ship = 'road'",
    '"Shipped by"=air': "\"Shipped by\" = 'air'",
    "ships~=air": "'air' = ANY (ships)",
    "mail=ANN@X.ORG": "mail = 'ANN@X.ORG'",
    "mail in ANN@X.ORG,BOB@X.ORG": "mail IN ('ANN@X.ORG', 'BOB@X.ORG')",
    "mail>B": "mail > 'B'",
    "mail^=aNN": "mail LIKE 'aNN%'",
    "code=AB": "code = 'AB'",
    "code^=AB": "code LIKE 'AB%'",
}
REFUSED = {
    "opens=25:00": "time",
    "opens>noon": "'noon' is not a time",
    "lasts>soon": "'soon' is not a interval",
    "lasts>9999999999999999 years": "interval",
    "data~={a}": "'{a}' is not a json",
    "data={}": "cannot be asked of a json",
    "host~=10.0.0.256": "is not a network address",
    "numbers~=x": 'invalid input syntax for type integer: "x"',
    "points~=(1,2)": "operator does not exist: point = point",
    '"no such"=1': "no such field",
    "ship=rail": 'invalid input value for enum ship: "rail"',
    "Order No>=2": """a name that is not plain stands in double quotes: '"Order No">=5'""",
}


@pytest.fixture
def odd(engine: Engine) -> Engine:
    with transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(TABLE.encode(), prepare=False)
    return engine


def selected(engine: Engine, where: str) -> list[int]:
    with transaction(engine) as connection:
        declared = reflection.reflect(connection, "public.odd")
    given = {"resource": declared.name, "declaration": declared, "fields": "id", "where": [where], "order": "id"}
    request = ExportRequest.parse(given)
    assert ExportRequest.parse(request.as_params()) == request
    return [int(line) for line in b"".join(streaming.stream(engine, request)).split()[1:]]


def test_each_filter_selects_what_the_table_selects(odd: Engine) -> None:
    with transaction(odd) as connection:
        wanted = {
            where: [row[0] for row in connection.execute(f"SELECT id FROM public.odd WHERE {sql} ORDER BY id".encode())]
            for where, sql in SELECTED.items()
        }
    assert {where: selected(odd, where) for where in SELECTED} == wanted
    assert all(0 < len(ids) < 4 for ids in wanted.values()), "each filter selects some rows, and not all"


@pytest.mark.parametrize("where", REFUSED)
def test_a_value_that_is_none_is_refused_in_one_line(odd: Engine, where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        selected(odd, where)
    assert REFUSED[where] in str(caught.value)
