"""Finds the names in a query: relations and, where possible, columns. Looks nothing up and runs nothing.

DuckDB's own parser returns the query as a tree. Only read-only statements have one, so all others are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import duckdb

from chronik.pipeline.sql.errors import SqlError

# SQL keywords that users take for columns of a topic, because Kafka's tools and Spark use these names.
RESERVED: Final = {"offset": "_offset", "partition": "_partition", "timestamp": "_timestamp"}


class Name(NamedTuple):
    schema: str  # "topics", "tables" or empty
    relation: str


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    names: tuple[Name, ...]
    columns: frozenset[str]  # all column names in the query, of any relation, in lower case
    is_open: bool = False  # all columns are used: a star, or DESCRIBE

    def wants(self, column: str, *, by_star: bool = True) -> bool:
        """Whether the query names a column, in any case, or uses all columns."""
        return column.lower() in self.columns or (self.is_open and by_star)


def parse(connection: duckdb.DuckDBPyConnection, text: str) -> Query:
    [[answer]] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    tree = json.loads(answer)
    if tree["error"]:
        if tree["error_type"] != "parser":
            raise SqlError("SQL_READS_ONLY")
        raise SqlError("SQL_SYNTAX", reason=why_unreadable(connection, text, tree))
    if len(tree["statements"]) != 1:
        raise SqlError("SQL_READS_ONLY")
    nodes = list(_nodes(tree))
    defined = {each["key"].lower() for node in nodes if "cte_map" in node for each in node["cte_map"]["map"]}
    names = dict.fromkeys(
        Name(node["schema_name"], node["table_name"])
        for node in nodes
        if node.get("type") == "BASE_TABLE" and (node["schema_name"] or node["table_name"].lower() not in defined)
    )
    # DESCRIBE and SUMMARIZE name no column but use all of them.
    is_open = any(node.get("class") == "STAR" or node.get("type") == "SHOW_REF" for node in nodes)
    parts = {part for node in nodes if node.get("class") == "COLUMN_REF" for part in node["column_names"]}
    using = {column for node in nodes if node.get("type") == "JOIN" for column in node.get("using_columns", ())}
    is_natural = any(node.get("type") == "JOIN" and node.get("ref_type") == "NATURAL" for node in nodes)
    return Query(text, tuple(names), frozenset(each.lower() for each in parts | using), is_open or is_natural)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for child in tree.values():
            yield from _nodes(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _nodes(child)


def why_unreadable(connection: duckdb.DuckDBPyConnection, text: str, tree: dict[str, Any]) -> str:
    """DuckDB's message about a syntax error, with the line and the mark below it."""
    message = _with_advice(tree["error_message"])
    try:
        connection.extract_statements(text)  # parses, runs nothing
    except duckdb.Error as error:
        _, line, mark = str(error).partition("\n\nLINE ")
        return f"{message}\nLINE {mark}" if line else message
    return message


def tidied(message: str) -> str:
    """The message on one line, then the line of the query and the mark below it."""
    words, line, mark = message.partition("\n\nLINE ")
    return f"{' '.join(words.split())}{f'{chr(10)}LINE {mark}' if line else ''}"


def _with_advice(message: str) -> str:
    for word, column in RESERVED.items():
        if message.endswith(f'near "{word}"'):
            return f"{message}, which is a word of SQL: topics and tables call that column {column}"
    return message
