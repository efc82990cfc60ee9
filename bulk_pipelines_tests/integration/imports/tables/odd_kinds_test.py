"""Whatever kind a column is of, and whatever file a value stands in: the table holds what `\\copy` of the value would
hold, or the record is rejected by name."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import openpyxl
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports.load import rejects
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.today import chance
from bulk_pipelines_tests.scenes.whole_imports import imported

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.long]

KINDS = """
CREATE TYPE shop.colour AS ENUM ('red', 'green', '', 'a,b', 'NULL', ' blue');
CREATE DOMAIN shop.colours AS shop.colour[] CHECK (cardinality(VALUE) < 4);
CREATE DOMAIN shop.paint AS shop.colours;
CREATE DOMAIN shop.even AS integer CHECK (VALUE % 2 = 0);
CREATE DOMAIN shop.cents AS numeric(5, 2);
CREATE TYPE shop.part AS (price numeric(5, 2), day date, notes varchar(3)[]);
CREATE TYPE shop.spans AS RANGE (subtype = shop.cents);
CREATE DOMAIN shop.parts AS shop.part[];
"""


def listed(text: str) -> list[str]:
    return text.split("|")


NUMBERS = listed(
    "0|-0|+5| 7 |1_000|0x1F|0b11|1e3|1.5|1.|.5|32768|2147483648|9999999999999999999|"
    "9999999999999999999999999|NaN|Infinity|-inf|1e400|1e-400|abc|1,5|0.1000000000000000000001|- 1|--1|"
    "007"
)
TIMES = listed(
    "2026-01-05|2026-01-05 10:00|2026-01-05T10:00:00.1234567Z|2026-01-05 24:00|2026-01-05 23:59:60|"
    "2026-02-30|infinity|epoch|2026-01-05 10:00:00+05:30|0044-03-15 BC|12:30|24:00:00|24:00:01|"
    "23:59:59.9999999|20260105|2026-1-5|January 5, 2026|2026.005|J2461046|1 day|P1DT2H|1:02:03.5|"
    "10:00 PM|2026-01-05 10:00 America/New_York|2026-01-05 10:00 EST|99999-01-01|00:00:00.0000004|"
    "1.5 days|-1 mon 2 days|1 year 2.5 mons|@ 1 hour ago| 2026-01-05 |2026-W02-1|31.12.2026"
)
TIMES += ["2026-01-05\t10:00"]
ARRAYS = listed(
    '{}|{1,2}|{1,NULL}|{{1,2},{3,4}}|[0:1]={1,2}|[1,2]|[1, null]|["a","b"]|{a,b}|{"a,b",c}|{ 1 , 2 }|'
    '{1,}|{red,green}|{red,""}|{red," blue"}|{NULL}|{"NULL"}|{red,red,red,red}|[]|{1.005}|{abcd}|{1,2|'
    r'1,2|["a", null]|["a\"b"]|[["a"],["b"]]|{2026-01-05}|[1.50,2]|[true,false]|{t,f}|{\x41,\\x42}'
)
RANGES = listed(
    "[1,2)|(1,2]|[1,1)|empty|(,)|[,5]|[2,1]|{[1,2),[3,4)}|{[1,3),[2,4)}|{}|[1.005,2)|[1.50,2.25]|"
    '[2026-01-05,2026-01-06)|[2026-01-05 10:00,)|["2026-01-05 10:00:00+05",)|(infinity,)| [1,2) |'
    "[ 1 , 2 )"
)
PARTS = listed(
    '(1.50,2026-01-05,{a})|(,,)|(1.505,,)|(1,2026-01-05T10:00,)|(1,,"{abc,de}")|(1,,{abcd})|(1,2)|()|'
    '{"(1,,)"}|{"(1.505,,)",NULL}|{NULL}|(1,,"{""a b"",c}")'
)
TEXTS = listed(
    r"""abc|abcd|abc |a  |  |é|🍕🍕🍕|ﬀﬀ|\x41|\101|\|NULL|null|\N|\.|'|"|""|101|1010|11111|B101|X1F|{"a": 1}|"""
    r"""{"a": 1, "a": 2}|[1, 1.0, 1e400]|"\u0000"|"\ud800"|1 2|a & b|'a b':1A|<a>é</a>|t|yes|ON| t |TRUE|2|"""
    "of|192.168.0.1|10.0.0.1/8|10.0.0.0/8|::1|08:00:2b:01:02:03|00000000-0000-0000-0000-000000000007|"
    "{00000000000000000000000000000007}|(1,2)|1,2|((1,2),(3,4))|<(1,2),3>|16/B374D848|$1,234.56|(5)|"
    "1.005|red|RED|green "
)
TEXTS += ["a\nb", "a\r\nb", "a\tb"]
EVERY = [*NUMBERS, *TIMES, *ARRAYS, *RANGES, *PARTS, *TEXTS]
COLUMNS = listed(
    "smallint|integer|bigint|numeric|numeric(4,1)|numeric(2,-2)|numeric(2,4)|real|double precision|"
    'boolean|text|varchar(3)|char(3)|citext|"char"|name|money|bit(3)|bit varying(4)|bit|date|time|'
    "time(0)|timetz|timestamp|timestamp(0)|timestamptz|timestamptz(3)|interval|interval(2)|"
    "interval day to minute|interval year|uuid|json|jsonb|bytea|inet|cidr|macaddr|point|box|circle|"
    "tsvector|tsquery|oid|pg_lsn|xml|shop.colour|shop.colours|shop.paint|shop.even|shop.cents|shop.part|"
    "shop.parts|integer[]|text[]|varchar(3)[]|numeric(3,1)[]|date[]|boolean[]|bytea[]|shop.colour[]|"
    "box[]|citext[]|int4range|numrange|tsrange|tstzrange|daterange|int4multirange|datemultirange|"
    "shop.spans|tsrange[]|interval[]|timetz[]|shop.even[]|json[]|regclass|xid|txid_snapshot|jsonpath|"
    "int2vector|oidvector|path|polygon|line|lseg"
)


@pytest.fixture
def shop(engine: Engine) -> Shop:
    shop = shops.opened(engine)
    shop.do(KINDS)
    return shop


def copied(shop: Shop, values: list[str]) -> dict[int, str]:
    """Return what the column holds of each value that COPY takes."""
    with pool.transaction(shop.engine) as connection:
        for place, value in enumerate(values):
            text = io.StringIO()
            csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow([place, value])
            try:
                with (
                    connection.transaction(),
                    connection.cursor().copy("COPY shop.copied FROM STDIN (FORMAT csv)") as copy,
                ):
                    copy.write(text.getvalue())
            except psycopg.Error:
                continue
        return dict(connection.execute("SELECT id, value::text FROM shop.copied").fetchall())


def as_csv(values: list[str], path: Path) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("id", "value"), *enumerate(values)])
    path.write_text(text.getvalue(), newline="")


def as_ndjson(values: list[str], path: Path) -> None:
    path.write_text("".join(json.dumps({"id": place, "value": value}) + "\n" for place, value in enumerate(values)))


def as_json(values: list[str], path: Path) -> None:
    path.write_text(
        json.dumps([{"id": place, "value": value} for place, value in enumerate(values)], ensure_ascii=False)
    )


def as_parquet(values: list[str], path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"id": pa.array(range(len(values)), pa.int32()), "value": values}), path)


def as_xlsx(values: list[str], path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["id", "value"])
    for place, value in enumerate(values):
        book.active.append([place, None])
        cell = book.active.cell(place + 2, 2)
        cell.value, cell.data_type = value, "s"
    book.save(path)


FORMATS: dict[str, Any] = {"csv": as_csv, "ndjson": as_ndjson, "json": as_json, "parquet": as_parquet, "xlsx": as_xlsx}


MAY_LOSE = {"does_not_fit", "too_long"}
"""Why a record may be rejected of whose value COPY would keep a part."""


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_value_is_what_copy_makes_of_it(shop: Shop, engine: Engine, tmp_path: Path, kind: str) -> None:
    shop.do(f"CREATE TABLE shop.copied (id integer, value {kind})")
    shop.do(f"CREATE TABLE shop.loaded (id integer PRIMARY KEY, value {kind})")
    declared = shop.declared("shop.loaded")
    drawn = chance()
    values = drawn.sample(EVERY, len(EVERY))
    held = copied(shop, values)
    for format_, write in FORMATS.items():
        if kind in {"json", "jsonb"} and format_ in {"ndjson", "json"}:
            continue  # a text in JSON is a text, and no JSON in a text
        path = tmp_path / f"values.{format_}"
        write(values, path)
        job = imported(engine, declared.name, path, declaration=declared, mode=drawn.choice(["insert", "upsert"]))
        assert job.finished, job.last_error
        found = dict(shop.query("SELECT id, value::text FROM shop.loaded"))
        shop.do("TRUNCATE shop.loaded")
        reasons = reasons_of(engine, job)
        assert len(found) + len(reasons) == len(values)
        assert not [
            (values[place], value)
            for place, value in found.items()
            if value != held.get(place) and not is_json_array(values[place], held.get(place))
        ]
        told = {each.get("value") for found in reasons for each in found if each["code"] not in MAY_LOSE}
        assert not told & {values[place] for place in held}


def reasons_of(engine: Engine, job: Job) -> list[list[dict[str, Any]]]:
    with pool.transaction(engine) as connection:
        return [each.reasons for each in rejects.every(connection, job.job_id)]


def is_json_array(value: str, held: str | None) -> bool:
    """Tell whether this is an array as JSON has it, which we read, and COPY does not."""
    return held is None and value.startswith("[")
