"""What PostgreSQL says of how it ran one of our queries: its indexes, and the pages that it looked at."""

import re
from collections.abc import Iterator
from typing import Any

from psycopg import sql

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database import queries


class Plan:
    """What EXPLAIN says of one run, which is undone."""

    def __init__(self, url: str, mode: str, file: str, name: str, values: dict[str, Any]) -> None:
        statement, names = numbered(queries.text(file, name))
        given = sql.SQL(", ").join(literal(values[each]) for each in names)
        with pools.single(url) as connection, connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
            connection.execute(f"PREPARE tested AS {statement}")
            explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE tested ({})").format(given)
            row = connection.execute(explain).fetchone()
        assert row is not None
        self.root = row[0][0]["Plan"]
        self.nodes = list(below(self.root))

    @property
    def buffers(self) -> int:
        """Pages looked at. What a statement does aside, in a CTE that nobody reads, does not count in its root."""
        aside = [node for node in self.nodes if node["Node Type"] == "ModifyTable" and node is not self.root]
        return sum(touched(node) for node in (self.root, *aside))

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def whole_tables(self) -> list[str]:
        """Items read from one end to the other."""
        return [
            node["Node Type"]
            for node in self.nodes
            if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "job_item"
        ]

    @property
    def most_rows(self) -> float:
        """The most rows that a node made or threw away."""
        removed = ("Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")
        made = [node["Actual Rows"] * node["Actual Loops"] for node in self.nodes]
        return float(max(*made, *(node.get(each, 0) * node["Actual Loops"] for node in self.nodes for each in removed)))


def touched(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", []):
        yield from below(each)


def literal(value: object) -> sql.Literal:
    """Return the value without a type, so that it takes the parameter's: an array of words, too."""
    if isinstance(value, list):
        value = "{" + ",".join("NULL" if each is None else str(each) for each in value) + "}"
    return sql.Literal(value)


def numbered(text: str) -> tuple[str, list[str]]:
    """Return the query with its parameters as PREPARE wants them, and their names in that order."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    for number, name in enumerate(names, 1):
        text = text.replace(f"%({name})s", f"${number}")
    return text.replace("%%", "%"), names
