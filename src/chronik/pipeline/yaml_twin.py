"""The YAML form of a pipeline file: the same declarations, with SQL in place of functions. Knows no Spark.

    bronze:
      - name: bronze_orders
        topic: orders
        decode: json
        schema: id long, amount double
    silver:
      - name: orders
        keys: [id]
        sequence_by: _offset
        sql: SELECT * FROM {bronze_orders} WHERE amount IS NOT NULL
        expectations:
          - {name: paid, condition: amount > 0, on_fail: dlq}

Names in braces are the inputs, as in `spark.sql(text, bronze_orders=frame)`. Every error names its line.
`command_config: client.properties` beside `bronze` names the file with the settings for a secured cluster.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final, NamedTuple

from chronik.pipeline.conditions import PipelineFault, nearest
from chronik.pipeline.declarations import Bronze, Declaration, Gold, Silver, SourceLine, ToTopic, Transform
from chronik.pipeline.expectations import Expectation, expect

KINDS: Final[dict[str, type[Declaration]]] = {"bronze": Bronze, "silver": Silver, "gold": Gold, "to_topic": ToTopic}
NOT_FIELDS: Final = {"transform", "declared_at", "reads"}
LISTS: Final = {"keys", "partition_by", "watermark"}
COMMAND_CONFIG: Final = "command_config"
LINE: Final = "__line__"
READ: Final = re.compile(r"\{(\w+)\}")


class Declared(NamedTuple):
    declarations: list[Declaration]
    command_config: object  # as written; empty if missing


def read_yaml(file: str, text: str) -> Declared:
    import yaml

    class Lines(yaml.SafeLoader):
        """Mappings that record their line."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's
            return {**super().construct_mapping(node, deep=deep), LINE: node.start_mark.line + 1}

    try:
        document = yaml.load(text, Loader=Lines)  # noqa: S506 - a subclass of SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = SourceLine(file, mark.line + 1 if mark is not None else 1)
        reason = str(getattr(error, "problem", None) or error)
        raise PipelineFault("YAML_MALFORMED", at=at, file=file, reason=reason) from error
    if not isinstance(document, dict):
        raise PipelineFault("YAML_MALFORMED", file=file, reason=f"give it one of {', '.join(KINDS)}")
    found: list[Declaration] = []
    command_config = document.pop(COMMAND_CONFIG, "")
    for kind, entries in document.items():
        if kind == LINE:
            continue
        if kind not in KINDS or not isinstance(entries, list):
            reason = f"{kind!r} is not a list under one of {', '.join(KINDS)}"
            raise PipelineFault("YAML_MALFORMED", file=file, reason=reason, nearest=nearest(str(kind), KINDS))
        found += [_declared(kind, entry, file) for entry in entries]
    return Declared(found, command_config)


def _declared(kind: str, entry: Any, file: str) -> Declaration:
    if not isinstance(entry, dict):
        raise PipelineFault("YAML_MALFORMED", file=file, reason=f"{entry!r} under {kind} is not a mapping")
    at = SourceLine(file, entry.pop(LINE))
    name = str(entry.get("name", "?"))
    known = {field.name for field in dataclasses.fields(KINDS[kind])} - NOT_FIELDS | {"sql"}
    for field in entry:
        if field not in known:
            near = nearest(str(field), known)
            raise PipelineFault("YAML_FIELD_UNKNOWN", at=at, nearest=near, kind=kind, name=name, field=field)
    required = {"bronze": ("name", "topic"), "to_topic": ("name", "topic", "sql")}.get(kind, ("name", "sql"))
    for field in required:
        if field not in entry:
            raise PipelineFault("YAML_FIELD_MISSING", at=at, kind=kind, name=name, field=field)
    sql = entry.pop("sql", None)
    values: dict[str, Any] = {key: tuple(value) if key in LISTS else value for key, value in entry.items()}
    if "expectations" in values:
        values["expectations"] = tuple(_expectation(each, at) for each in values["expectations"])
    if kind != "bronze":
        values["reads"] = tuple(dict.fromkeys(READ.findall(sql)))
    return KINDS[kind](**values, transform=None if sql is None else in_sql(sql), declared_at=at)


def _expectation(entry: Any, at: SourceLine) -> Expectation:
    try:
        entry.pop(LINE, None)
        return expect(entry.pop("name"), entry.pop("condition"), **entry)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PipelineFault("YAML_MALFORMED", at=at, file=at.file, reason=f"an expectation: {error}") from error


def in_sql(text: str) -> Transform:
    """A function of DataFrames that runs the text on them; in a bronze the rows are {records}."""
    names = tuple(dict.fromkeys(READ.findall(text)))

    def run(*frames: Any) -> Any:
        return frames[0].sparkSession.sql(text, **dict(zip(names, frames, strict=True)))

    return run
