"""A docstring says who or what it is about, because it is also read where the line above it is not seen.

So it begins with its subject, or with what to do ("Return …"). A preposition, or a pronoun that points back, leans on
the name of the function or on the line above: "Of the job, in their order.", "It is shown once.", "Those of a worker."
Words that may begin a clause with a verb of its own are no fault: When, If, While, Before, After, Until, What, Whether.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from bulk_pipelines.settings import CHECKOUT

PREPOSITIONS = (
    "Against|Among|As|At|Behind|Beside|Between|By|For|From|In|Into|Of|On|Through|To|Under|With|Within|Without"
)
PRONOUNS = "He|Her|His|It|Its|She|Such|Their|Them|These|They|Those"
LINKS = "Also|And|But|Like|Not|Or|So|Then"
LEANING = re.compile(rf"({PREPOSITIONS}|{PRONOUNS}|{LINKS})\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a file, also those of attributes and constants, each with its line."""
    for node in ast.walk(ast.parse(source)):
        for each in node.body if isinstance(node, DOCUMENTED) else ():
            match each:
                case ast.Expr(ast.Constant(str() as said)):
                    yield each.lineno, said.strip()


def leaning(source: str) -> list[tuple[int, str]]:
    return [(line, said) for line, said in docstrings(source) if LEANING.match(said)]


@pytest.mark.parametrize("room", ["bulk_pipelines", "bulk_pipelines_tests", "benchmarks"])
def test_docstrings_begin_with_what_they_are_about(room: str) -> None:
    paths = sorted((CHECKOUT / room).rglob("*.py"))
    found = {str(path.relative_to(CHECKOUT)): leaning(path.read_text()) for path in paths}
    assert len(found) > 5
    assert {name: those for name, those in found.items() if those} == {}


@pytest.mark.parametrize("said", ["Of the job, in their order.", "It is shown once.", "Those of a worker."])
@pytest.mark.parametrize("form", ['"""{}"""', 'class A:\n    b: str\n    """{}"""', 'def f():\n    """\n    {}"""'])
def test_a_docstring_that_leans_on_its_name_is_found(said: str, form: str) -> None:
    assert [text for _, text in leaning(form.format(said))] == [said]


@pytest.mark.parametrize("said", ["When clocks go back, two moments read the same.", "Items of a job.", "Atoms."])
def test_a_docstring_that_stands_alone_is_left_alone(said: str) -> None:
    assert leaning(f'def f():\n    """{said}"""\n') == []
