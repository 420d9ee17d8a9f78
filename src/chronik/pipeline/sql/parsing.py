"""What a query names: relations, and columns if they can be told apart. Nothing is looked up and nothing is run.

DuckDB's own parser gives the query as a tree. Only statements that read have one, so nothing else gets any further.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import duckdb

from chronik.pipeline.sql.errors import SqlError

# Words of SQL that people take for columns of a topic, because Kafka's tools and Spark call them so.
RESERVED: Final = {"offset": "_offset", "partition": "_partition", "timestamp": "_timestamp"}


class Name(NamedTuple):
    schema: str  # "topics", "tables" or nothing
    relation: str


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    names: tuple[Name, ...]
    columns: frozenset[str]  # every column that is named, of whatever relation, in lower case
    is_open: bool = False  # all columns are asked for: a star, or DESCRIBE

    def wants(self, column: str, *, by_star: bool = True) -> bool:
        """Whether the query names a column, in any case, or asks for all."""
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
    # DESCRIBE and SUMMARIZE name no column and mean all of them.
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
    """DuckDB's words about a syntax error, with the line and the mark below it."""
    message = _with_advice(tree["error_message"])
    try:
        connection.extract_statements(text)  # parses, runs nothing
    except duckdb.Error as error:
        _, line, mark = str(error).partition("\n\nLINE ")
        return f"{message}\nLINE {mark}" if line else message
    return message


def tidied(message: str) -> str:
    """The message on one line, and the line of the query with the mark below it on two more."""
    words, line, mark = message.partition("\n\nLINE ")
    return f"{' '.join(words.split())}{f'{chr(10)}LINE {mark}' if line else ''}"


def _with_advice(message: str) -> str:
    for word, column in RESERVED.items():
        if message.endswith(f'near "{word}"'):
            return f"{message}, which is a word of SQL: topics and tables call that column {column}"
    return message
