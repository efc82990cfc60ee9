"""The command that a preview proposes is given to a shell as it stands, and does what the preview has said, whatever
columns, fields, values and files are called."""

import csv
import io
import itertools
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.formats.flags import flags_of
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.records.parsed import shown
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.today import examples
from bulk_pipelines_tests.scenes.whole_imports import imported

HOSTILE = [
    *("a,b", "a=b", "=", ",", '"', "'", '"x"', "it's", "two words", "-", "--map", "-e", "$HOME", "$(id)", "`id`", "\\"),
    *(
        "{",
        '{"a": 1}',
        "[",
        '["a"]',
        "[]",
        "a\nb",
        "é",
        "漢字",
        "🙂",
        "a;b",
        "a|b",
        "a&b",
        "*",
        "?",
        "!x",
        "#",
        "%s",
        "~",
    ),
    *("a\tb", "%(x)s", ":x", "a:b", "NULL", "0", "field 4", "field 5", "ﬁ", "\u202e", "\\n", "a/b", "..", "x.y"),
]
MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
NUMBERS = itertools.count()
STUB = "#!/bin/sh\nfor each do printf '%s\\0' \"$each\"; done\n"


def texts() -> st.SearchStrategy[str]:
    drawn = st.text(st.sampled_from(",=\"'` \n\t$\\-{}[]()*;|&<>!#%~aBé漢🙂:/.0"), min_size=1, max_size=12)
    return st.one_of(st.sampled_from(HOSTILE), drawn, st.lists(st.sampled_from(HOSTILE), min_size=2).map("".join))


def names() -> st.SearchStrategy[str]:
    """Names of columns and of fields. A header keeps no space around its names."""
    return texts().map(str.strip).filter(lambda name: 0 < len(name.encode()) < 60)


@dataclass(frozen=True)
class Case:
    columns: list[str]
    fields: list[str]
    records: list[tuple[str, str]]
    delimiter: str
    closed: bool
    """Whether records end with a delimiter that the header lacks."""
    options: dict[str, Any]
    validate_only: bool
    file: str

    def text(self) -> str:
        more = ["left"] * (len(self.fields) - 2)
        lines = [["id", *self.fields], *([str(n), *record, *more] for n, record in enumerate(self.records, 1))]
        header, *written = (self.line(each) for each in lines)
        end = self.delimiter if self.closed else ""
        return "".join([f"{header}\n", *(f"{line}{end}\n" for line in written)])

    def line(self, values: list[str]) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=self.delimiter, quoting=csv.QUOTE_ALL, lineterminator="").writerow(values)
        return out.getvalue()


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    possible = names().filter(lambda name: "%" not in name)
    columns = draw(st.lists(possible, min_size=3, max_size=3, unique_by=str.casefold))
    fields = draw(st.lists(names(), min_size=3, max_size=3, unique_by=str.casefold))
    surplus = draw(st.sampled_from([[], [""], ["", ""], [fields[2]], ["more", "more", "field 5"]]))
    value = st.one_of(st.sampled_from(["plain", "a,b", "x=y"]), names())
    options: dict[str, Any] = {
        "map": dict(zip(columns, fields[:2], strict=False)),
        "constants": {columns[2]: draw(texts().filter(str.strip))},
        "nulls": draw(st.lists(texts(), max_size=2, unique=True)),
    }
    leaving = draw(st.sampled_from(["ignore", "ignore_extra", ""]))
    left = list(dict.fromkeys([fields[2], *surplus]))
    options |= {"ignore": left} if leaving == "ignore" else {"ignore_extra": True} if leaving else {}
    return Case(
        columns,
        [*fields, *surplus],
        draw(st.lists(st.tuples(value, value), min_size=1, max_size=3)),
        draw(st.sampled_from(sorted(MARKS))),
        draw(st.booleans()),
        options,
        draw(st.booleans()),
        draw(st.sampled_from(["plain.csv", "errors", "-e.csv", "--map", "two words", "it's.csv", "$(id)`id`", "é"])),
    )


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `bulk` prints what it is given."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "bulk").write_text(STUB)
    (folder / "bulk").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": "/nowhere"}


@settings(
    max_examples=examples(40),
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases())
def test_a_proposed_command_does_what_the_preview_has_said(
    engine: Engine, database_url: str, stub: dict[str, str], tmp_path: Path, case: Case
) -> None:
    shop = Shop(engine)
    table = f"t{next(NUMBERS)}"
    columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in case.columns)
    shop.do(f"CREATE TABLE public.{table} (id integer PRIMARY KEY, {columns.as_string()})")
    folder = tmp_path / table
    folder.mkdir()
    (folder / case.file).write_text(case.text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BULK_HOME", str(tmp_path / "home"))
        patch.setenv("BULK_DATABASE_URL", database_url)
        asked = ["--table", table, *flags_of(Reading.of(case.options))]
        asked += ["--validate-only"] if case.validate_only else ["--priority", "7", "--mode", "upsert"]
        said = previewed("import", "--preview", *asked, "--", case.file)
        event(f"{said['preview']['problem'] or 'fits'}"[:60])
        assert said["preview"]["judged"] == len(case.records), said
        ran = subprocess.run(["/bin/sh", "-c", said["command"]], env=stub, capture_output=True, cwd=folder, check=True)
        words = ran.stdout.decode().split("\0")[:-1]
        again = previewed("import", "--preview", *words[1:])
        assert again["command"] == said["command"]
        assert again["preview"] == said["preview"] | {"problem": None, "remedy": {}}
        flag = ["--validate-only"] if case.validate_only else ["--mode", "upsert", "--priority", "7"]
        assert words[2 : 4 + len(flag)] == ["--table", table, *flag]
        reading = Reading.from_params(again["preview"]["reading"])
        declared = shop.declared(f"public.{table}")
        job = imported(engine, declared.name, folder / case.file, declaration=declared, reading=reading)
    assert job.result is not None, job.last_error
    assert (job.result["read"], job.result["rejected"]) == (len(case.records), again["preview"]["rejected"])
    given_ = [each["column"] for each in again["preview"]["columns"]]
    assert set(given_) == {"id", *case.columns}
    rows = shop.query(f"SELECT {', '.join(sql.Identifier(name).as_string() for name in given_)} FROM public.{table}")
    assert [tuple(shown(str(each)) if each is not None else None for each in row) for row in rows] == [
        tuple(record[name] for name in given_) for record in again["preview"]["records"]
    ]


def previewed(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, [words[0], "--json", *words[1:]], catch_exceptions=False)
    assert result.stdout, result.output
    (told,) = json.loads(result.stdout)
    return dict(told)
