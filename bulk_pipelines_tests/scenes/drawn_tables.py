"""Tables as somebody might have made them, drawn at random with what PostgreSQL offers, and records for them.

A table is drawn by a seed alone, so that a test that fails names it, and anybody can draw the same one again.
"""

import random
from dataclasses import dataclass, field

PREPARED = """
CREATE EXTENSION IF NOT EXISTS citext;
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE EXTENSION IF NOT EXISTS hstore;
CREATE EXTENSION IF NOT EXISTS ltree;
CREATE SCHEMA IF NOT EXISTS "Odd. Place";
CREATE TYPE mood AS ENUM ('so so', 'it''s', 'a,b', '', 'NULL');
CREATE DOMAIN whole AS integer CHECK (VALUE < 1000);
CREATE DOMAIN few AS whole CHECK (VALUE > -1000);
CREATE DOMAIN given AS text NOT NULL DEFAULT 'given';
CREATE DOMAIN moods AS mood[] CHECK (cardinality(VALUE) < 4);
CREATE TYPE pair AS (a few, b text, c mood[]);
CREATE TYPE fewrange AS RANGE (subtype = integer);
CREATE FUNCTION twice(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
CREATE FUNCTION public.word() RETURNS text STABLE LANGUAGE sql AS $$SELECT 'by itself'$$;
CREATE FUNCTION refuse_nines() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n = 9 THEN RAISE EXCEPTION 'no nines'; END IF;
    IF NEW.n = 8 THEN RETURN NULL; END IF;
    RETURN NEW;
END $$;
CREATE TABLE parents (id integer PRIMARY KEY, code citext UNIQUE, a integer, b text, UNIQUE (a, b));
INSERT INTO parents VALUES (1, 'one', 1, 'x'), (2, 'two', 2, 'y'), (3, 'three', 3, NULL);
INSERT INTO parents VALUES (4, 'é', 4, ''), (5, NULL, 5, 'x'), (6, 'Ä', 6, 'x'), (7, NULL, 7, NULL);
"""

SMALL = [str(number) for number in range(1, 10)]
KINDS: dict[str, list[str]] = {
    "smallint": ["-5", "0", "32767"],
    "integer": SMALL,
    "bigint": ["9223372036854775807", "-1", "7"],
    "numeric": ["1.50", "1.5", "NaN", "0", "123456789012345678901234567890.5"],
    "numeric(6,2)": ["1.50", "-3", "9999.99"],
    "real": ["1.5", "NaN", "-Infinity"],
    "double precision": ["0.1", "1e300", "-0"],
    "boolean": ["true", "f"],
    "text": ["", "x", "a,b", 'say "hi"', "two\nlines", "\\N", "é", "NULL"],
    "varchar(5)": ["", "abcde", "é"],
    "char(3)": ["a", "abc", ""],
    "citext": ["One", "one", "TWO", "ä", "Ä"],
    "name": ["a name", ""],
    '"char"': ["a", ""],
    "date": ["2026-01-10", "infinity", "0044-03-15 BC"],
    "time": ["12:30:00.123456", "24:00:00"],
    "timetz": ["12:30:00+05:30"],
    "timestamp": ["2026-01-10 12:30:00.123456", "infinity"],
    "timestamptz": ["2026-01-10 12:30:00+02", "-infinity"],
    "timestamptz(2)": ["2026-01-10 12:30:00.12+02"],
    "interval": ["1 year -2 mons 3 days 04:05:06.7", "P1DT2H", "-00:00:01"],
    "interval day to minute": ["3 days 04:05:00"],
    "uuid": ["00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000008"],
    "json": ['{"a": [1, null]}', "[]", '"x"'],
    "jsonb": ['{"a": {"b": 1.50}}', "true", "[1, 2]"],
    "bytea": ["\\x00ff", "\\x"],
    "inet": ["10.1.2.3/9", "::1"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "money": ["$1.50", "-$3.00"],
    "bit(3)": ["101"],
    "bit varying(5)": ["", "10110"],
    "tsvector": ["'a b':1A 'c':2", ""],
    "tsquery": ["'a' & 'b'", ""],
    "oid": ["4294967295", "0"],
    "hstore": ['"a"=>"1", "b"=>NULL', ""],
    "ltree": ["a.b.c", ""],
    "mood": ["so so", "it's", "a,b", "", "NULL"],
    "whole": ["7", "-5000"],
    "few": ["7", "8"],
    "given": ["", "word"],
    "moods": ['{"so so",NULL,"a,b"}', "{}", '{"","NULL"}'],
    "pair": ['(1,"a b","{so so}")', '(,"",)', "(,,)"],
    "pair[]": ['{"(1,x,)",NULL}'],
    "fewrange": ["[1,5)", "empty", "(,3)"],
    "numrange": ["[1.5,2)", "empty"],
    "tstzrange": ['["2026-01-10 00:00:00+00",)'],
    "int4multirange": ["{[1,3),[5,7)}", "{}"],
    "integer[]": ["{1,NULL,3}", "{}", "{{1,2},{3,4}}", "[0:1]={7,8}"],
    "text[]": ['{"a,b",NULL,"NULL",""}', "{}"],
    "few[]": ["{1,2}"],
    "point": ["(1.5,-2)"],
    "pg_lsn": ["16/B374D848"],
    "jsonpath": ['$."a"'],
}
"""Kinds of columns, and values of each that PostgreSQL keeps whole."""
BAD = {
    "smallint": "40000",
    "integer": "1.5",
    "numeric(6,2)": "12345.50",
    "varchar(5)": "abcdef",
    "char(3)": "abcd",
    "mood": "glad",
    "whole": "1000",
    "few": "-1000",
    "moods": "{NULL,NULL,NULL,NULL}",
    "pair": "(1001,,)",
    "pair[]": '{"(1,2)"}',
    "bit(3)": "10",
    "date": "2026-02-30",
    "ltree": "a b.",
}
"""A value of some kinds that they do not take."""
BELOW = {"whole": "integer", "few": "integer", "given": "text", "moods": "mood[]"}
"""The types below domains: a record whose value breaks the CHECK of a domain is one that the table refuses."""
EQUALS = ["smallint", "integer", "bigint", "numeric", "text", "citext", "char(3)", "uuid", "date", "mood", "few"]
EQUALS += ["given", "timestamptz", "jsonb", "numrange", "integer[]", "pair", "bytea", "inet", "interval", "few[]"]
"""Kinds whose values a key may hold."""
REFUSE = "FOR EACH ROW EXECUTE FUNCTION refuse_nines()"
STORING = ["STORED", "VIRTUAL"]
"""How a generated column may be kept. Since version 18, PostgreSQL also computes it when it is read."""
NAMES = ["n", "A b", "select", 'q"q', "ü", "x.y", "limit", "key", "t", "a", "s", "value"]
EXCLUDING = ("NULLS NOT DISTINCT", "CREATE UNIQUE INDEX", "EXCLUDE", "INHERITS")
"""Words of constraints by which records exclude each other, and that no declaration knows."""
Record = dict[str, str | None]


@dataclass
class Drawn:
    seed: int
    place: str = ""
    ddl: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    """The kind of each column."""
    given: list[str] = field(default_factory=list)
    """The columns that a file has."""
    made: set[str] = field(default_factory=set)
    """The columns whose values go by how many rows were tried, if the file does not have them."""
    before: list[Record] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    traced: bool = False
    """Whether its rows say which import they come from."""

    def __str__(self) -> str:
        rows = "\n".join(f"{n}: {[record[name] for name in self.given]}" for n, record in enumerate(self.records))
        return f"{self.ddl}\n{self.given}\n{rows}\nbefore: {[list(each.values()) for each in self.before]}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def drawn(seed: int) -> Drawn:
    chance = random.Random(seed)
    table = Drawn(seed)
    schema, name = chance.choice(["public", '"Odd. Place"']), chance.choice(["goods", '"Some ""Goods"""', '"a.b"'])
    table.place = f"{schema}.{name}"
    names = ["n", *chance.sample(NAMES[1:], chance.randint(1, 7))]
    table.kinds = dict(zip(names, ["integer", *(chance.choice(list(KINDS)) for _ in names[1:])], strict=True))
    way = chance.choice(["RANGE", "LIST", "HASH"]) if chance.random() < 0.25 else ""
    lines = [column_of(chance, table, name) for name in names]
    if chance.random() < 0.3:
        lines.append(f"made integer GENERATED ALWAYS AS (n + 1) {chance.choice(STORING)}")
    if chance.random() < 0.15:
        lines.append("numbered integer GENERATED ALWAYS AS IDENTITY")
    lines += [*keys(chance, table, is_whole=not way), *rules(chance, table, is_whole=not way)]
    unlogged = "UNLOGGED " if not way and chance.random() < 0.1 else ""
    by = f" PARTITION BY {way} (n)" if way else ""
    table.ddl = f"CREATE {unlogged}TABLE {table.place} (\n    " + ",\n    ".join(lines) + f"\n){by};\n"
    table.ddl += partitions(chance, table, way) if way else ""
    table.ddl += afterwards(chance, table, is_whole=not way)
    table.traced = "INHERITS" not in table.ddl and chance.random() < 0.3
    table.given = [name for name in names if name == "n" or chance.random() < 0.85]
    chance.shuffle(table.given)
    table.before = [record(chance, table, bad=0) for _ in range(chance.randint(0, 4))]
    table.records = [record(chance, table, bad=0.04) for _ in range(chance.randint(1, 25))]
    return table


def record(chance: random.Random, table: Drawn, bad: float) -> Record:
    found: Record = {}
    for name, kind in table.kinds.items():
        found[name] = chance.choice(KINDS[kind])
        if chance.random() < (0.02 if name == "n" else 0.15):
            found[name] = None
        elif kind in BAD and chance.random() < bad:
            found[name] = BAD[kind]
    return found


def column_of(chance: random.Random, table: Drawn, name: str) -> str:
    kind = table.kinds[name]
    line = f"{quoted(name)} {kind}"
    if name != "n" and chance.random() < 0.2:
        line += " NOT NULL"
    if chance.random() < 0.15:
        if kind == "text":
            line += chance.choice([" DEFAULT word()", " DEFAULT 'it''s' || E'\\\\'"])
        elif kind == "integer" and name != "n":
            way = chance.choice([" DEFAULT twice(2)", " GENERATED BY DEFAULT AS IDENTITY"])
            if "IDENTITY" in way:
                table.made.add(name)
                line = line.removesuffix(" NOT NULL")
            line += way
        else:
            line += f" DEFAULT {literal(KINDS[kind][0])}"
    return line


def keys(chance: random.Random, table: Drawn, *, is_whole: bool) -> list[str]:
    able = [name for name, kind in table.kinds.items() if kind in EQUALS]
    found = []
    for number in range(chance.choice([0, 1, 1, 1, 2, 3])):
        columns = chance.sample(able, min(len(able), chance.choice([1, 1, 2])))
        if not is_whole and "n" not in columns:
            columns.append("n")
        listed = ", ".join(map(quoted, columns))
        late = chance.choice(["", "", "", " DEFERRABLE INITIALLY DEFERRED", " DEFERRABLE"]) if is_whole else ""
        if number == 0 and chance.random() < 0.7:
            found.append(f"PRIMARY KEY ({listed}){late}")
        else:
            nulls = chance.choice(["", "", "", " NULLS NOT DISTINCT"])
            found.append(f"UNIQUE{nulls} ({listed}){late}")
    return found


def rules(chance: random.Random, table: Drawn, *, is_whole: bool) -> list[str]:
    found = []
    names = list(table.kinds)
    if chance.random() < 0.3:
        found.append(f'CONSTRAINT "it\'s a rule" CHECK (n <> {chance.choice(SMALL)})')
    if len(names) > 1 and chance.random() < 0.3:
        other = quoted(chance.choice(names[1:]))
        found.append(f"CHECK ({other} IS NOT NULL OR n < {chance.choice(SMALL)})")
    if chance.random() < 0.1:
        found.append("CHECK (10 / (n - 5) < 100)")
    if chance.random() < 0.25:
        late = chance.choice(["", " DEFERRABLE INITIALLY DEFERRED", " ON DELETE CASCADE", " ON UPDATE SET NULL"])
        found.append(f"FOREIGN KEY (n) REFERENCES parents{late}")
    texts = [name for name, kind in table.kinds.items() if kind in {"citext"}]
    if texts and chance.random() < 0.5:
        found.append(f"FOREIGN KEY ({quoted(texts[0])}) REFERENCES parents (code)")
    twos = [name for name, kind in table.kinds.items() if kind == "text"]
    if twos and chance.random() < 0.5:
        match = chance.choice(["", " MATCH FULL"])
        found.append(f"FOREIGN KEY (n, {quoted(twos[0])}) REFERENCES parents (a, b){match}")
    ranges = [name for name, kind in table.kinds.items() if kind in {"numrange", "fewrange"}]
    if ranges and is_whole and chance.random() < 0.6:
        found.append(f"EXCLUDE USING gist (n WITH =, {quoted(ranges[0])} WITH &&)")
    return found


def partitions(chance: random.Random, table: Drawn, way: str) -> str:
    place = table.place
    part = ("public" if place.startswith("public") else '"Odd. Place"') + ".part"
    if way == "HASH":
        values = [f"WITH (MODULUS 2, REMAINDER {number})" for number in range(2)]
    elif way == "RANGE":
        values = ["FROM (MINVALUE) TO (4)", "FROM (4) TO (8)"]
    else:
        values = ["IN (1, 2, 3)", "IN (4, 5, 6)"]
    more = " PARTITION BY LIST (n)" if way != "HASH" and chance.random() < 0.4 else ""
    text = f"CREATE TABLE {part}0 PARTITION OF {place} FOR VALUES {values[0]}{more};\n"
    text += f"CREATE TABLE {part}1 PARTITION OF {place} FOR VALUES {values[1]};\n"
    if more:
        text += f"CREATE TABLE {part}00 PARTITION OF {part}0 FOR VALUES IN (1, 2);\n"
    if way != "HASH" and chance.random() < 0.4:
        text += f"CREATE TABLE {part}2 PARTITION OF {place} DEFAULT;\n"
    if chance.random() < 0.3:
        text += f"ALTER TABLE {part}1 ADD CHECK (n <> 5);\n"
    return text


def afterwards(chance: random.Random, table: Drawn, *, is_whole: bool) -> str:
    text = ""
    place, names = table.place, list(table.kinds)
    able = [quoted(name) for name, kind in table.kinds.items() if kind in EQUALS]
    texts = [quoted(name) for name, kind in table.kinds.items() if kind in {"text", "citext", "varchar(5)"}]
    if is_whole and chance.random() < 0.15:
        text += f"CREATE UNIQUE INDEX ON {place} ({chance.choice(able)}) WHERE n < 5;\n"
    if is_whole and texts and chance.random() < 0.3:
        text += f"CREATE UNIQUE INDEX ON {place} (lower({texts[0]}));\n"
    if chance.random() < 0.1:
        text += f"CREATE INDEX ON {place} ((100 / (n - 6)));\n"
    if is_whole and chance.random() < 0.1:
        text += f"CREATE UNIQUE INDEX ON {place} (n) INCLUDE ({quoted(names[-1])});\n"
    if chance.random() < 0.12:
        text += f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {place} {REFUSE};\n"
    elif chance.random() < 0.08:
        when = f"AFTER INSERT OR UPDATE ON {place} DEFERRABLE INITIALLY DEFERRED"
        text += f"CREATE CONSTRAINT TRIGGER refuse {when} {REFUSE};\n"
    if is_whole and chance.random() < 0.07:
        text += f"CREATE TABLE heirs () INHERITS ({place});\n"
    return text
