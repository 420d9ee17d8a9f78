"""Dry-run: checks everything about a pipeline that can be known before it reads a record.

    plan = dry_run(load("orders.py"), cluster=LiveCluster("localhost:9092"), storage=Storage("/lake"), frames=frames)
    plan.errors      # named conditions, each with the line of its declaration; empty if the pipeline may run

Four steps: the declarations among themselves, their topics, their storage, and their columns, on empty frames. A step
is skipped if an earlier one found errors that make it pointless. It reads no record and leaves nothing behind. `run`
calls the same function first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from chronik.pipeline.conditions import PipelineFault, nearest
from chronik.pipeline.declarations import LINEAGE, Bronze, Declaration, Gold, Silver, ToTopic
from chronik.pipeline.denials import READ, WRITE
from chronik.pipeline.flows import Flow, flows_of
from chronik.pipeline.registry import Pipeline

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
KEY_COLUMN: Final = re.compile(r"\w+\s+\S.*")
DURATION: Final = re.compile(r"\d+ (second|minute|hour|day)s?")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    topic_id: str
    partition_count: int


class Topics(Protocol):
    """The cluster interface of a plan."""

    def topics(self) -> Mapping[str, TopicFacts]: ...

    def why_denied(self, topic: str, operation: str) -> str:
        """The permission that is missing for a topic that is not listed, or an empty string."""
        ...


class Places(Protocol):
    """The storage interface of a plan: a reason against a location, or an empty string."""

    root: str

    def why_not_writable(self, path: str) -> str: ...

    def why_not_shared(self, path: str, master: str) -> str: ...

    def has_rows(self, table: str) -> bool: ...

    def exists(self, path: str) -> bool: ...


class Frames(Protocol):
    """Resolves columns on empty frames. Tests use a dict; the real one uses Spark."""

    def columns_of(self, pipeline: Pipeline, declaration: Declaration) -> Mapping[str, str]:
        """Names and types of a declaration's rows; raises PipelineFault."""
        ...

    def why_not_boolean(self, pipeline: Pipeline, declaration: Declaration, condition: str) -> str:
        """A reason against a condition over those columns, or an empty string."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    flow: Flow
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    pipeline: Pipeline
    flows: tuple[PlannedFlow, ...]
    errors: tuple[PipelineFault, ...]
    topics: Mapping[str, TopicFacts]

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pipeline": self.pipeline.name,
            "file": self.pipeline.file,
            "flows": [_told(planned) for planned in self.flows],
            "errors": [error.document() for error in self.errors],
        }

    def lines(self) -> Iterator[str]:
        """For users: inputs, outputs and resulting columns."""
        yield f"pipeline {self.pipeline.name} ({self.pipeline.file})"
        for planned in self.flows:
            flow = planned.flow
            reads = ", ".join(flow.declaration.reads) or f"topic {flow.source_topic}"
            facts = self.topics.get(flow.source_topic)
            spread = f" ({facts.partition_count} partitions)" if facts and not flow.declaration.reads else ""
            yield f"  {flow.kind:<8} {flow.name}: {reads}{spread} -> {flow.target}"
            for each in getattr(flow.declaration, "expectations", ()):
                yield f"           expects {each.name}: {each.condition} (else {each.on_fail})"
            if planned.columns:
                yield f"           columns {', '.join(f'{name} {kind}' for name, kind in planned.columns.items())}"
        for error in self.errors:
            yield f"  {error.sentence}"


def _told(planned: PlannedFlow) -> dict[str, Any]:
    flow = planned.flow
    return {
        "name": flow.name,
        "kind": flow.kind,
        "reads": list(flow.declaration.reads) or [flow.source_topic],
        "target": flow.target,
        "checkpoint": None if flow.is_view else flow.checkpoint,
        "group": None if flow.is_view else flow.group,
        "dead_letters": flow.dlq_topic or None,
        "columns": dict(planned.columns),
    }


def dry_run(
    pipeline: Pipeline,
    *,
    cluster: Topics,
    storage: Places | None = None,
    frames: Frames | None = None,
    master: str = "",
) -> Plan:
    """Skips the steps that need `storage` and `frames` if these are None."""
    flows = flows_of(pipeline, storage.root if storage is not None else "")
    topics: Mapping[str, TopicFacts] = {}
    errors = list(_among_themselves(pipeline))
    if not errors:
        try:
            topics = cluster.topics()
        except PipelineFault as error:
            errors.append(error)
        else:
            errors += _topics_named(pipeline, topics, cluster)
    if storage is not None:
        errors += [error for flow in flows for error in _places(flow, storage, master)]
    planned = [PlannedFlow(flow) for flow in flows]
    if frames is not None and not errors:
        planned = []
        for flow in flows:
            try:
                planned.append(PlannedFlow(flow, _columns(pipeline, flow.declaration, frames)))
            except PipelineFault as error:
                errors.append(error)
                planned.append(PlannedFlow(flow))
    return Plan(pipeline, tuple(planned), tuple(errors), topics)


def _among_themselves(pipeline: Pipeline) -> Iterator[PipelineFault]:
    seen: dict[str, Declaration] = {}
    for each in pipeline:
        at = each.declared_at
        if NAME.fullmatch(each.name) is None:
            yield PipelineFault("NAME_INVALID", at=at, name=each.name)
        first = seen.setdefault(each.name, each)
        if first is not each:
            first_line = first.declared_at.line if first.declared_at else None
            yield PipelineFault("NAME_TAKEN", at=at, name=each.name, first_line=first_line)
        yield from _reads(pipeline, each)
        yield from _options(each)


def _reads(pipeline: Pipeline, each: Declaration) -> Iterator[PipelineFault]:
    at = each.declared_at
    if isinstance(each, Bronze):
        return
    if not each.reads:
        yield PipelineFault("NOTHING_READ", at=at, name=each.name)
    reads_one = not isinstance(each, Gold) or each.is_stream
    if reads_one and len(each.reads) > 1:
        kind = type(each).__name__.lower()
        yield PipelineFault("TOO_MANY_READ", at=at, name=each.name, tables=", ".join(each.reads), kind=kind)
    readable = [other.name for other in pipeline if not isinstance(other, ToTopic)]
    for table in each.reads:
        other = pipeline.named(table)
        if other is None or isinstance(other, ToTopic):
            near = nearest(table, [name for name in readable if name != each.name])
            yield PipelineFault("TABLE_NOT_DECLARED", at=at, nearest=near, name=each.name, table=table)
        elif isinstance(other, Gold) and not (isinstance(each, Gold) and not each.is_stream):
            yield PipelineFault("GOLD_IS_THE_END", at=at, name=each.name, table=table)
    if path := _path_to_itself(pipeline, each):
        yield PipelineFault("CYCLE", at=at, name=each.name, path=" -> ".join(path))


def _path_to_itself(pipeline: Pipeline, start: Declaration) -> list[str]:
    paths = [[name] for name in start.reads]
    while paths:
        path = paths.pop()
        if path[-1] == start.name:
            return path
        found = pipeline.named(path[-1])
        paths += [[*path, name] for name in (found.reads if found else ()) if name not in path]
    return []


def _options(each: Declaration) -> Iterator[PipelineFault]:
    """Values that are invalid whatever the data."""

    def invalid(option: str, value: object, reason: str) -> PipelineFault:
        return PipelineFault(
            "OPTION_INVALID", at=each.declared_at, name=each.name, option=option, value=value, reason=reason
        )

    if isinstance(each, Bronze):
        if each.decode not in ("none", "json"):
            yield invalid("decode", each.decode, "it must be none or json")
        if each.decode == "json" and not each.schema:
            yield invalid("schema", each.schema, "decode='json' needs one: schema='id long, amount double'")
        if each.unknown_fields not in ("ignore", "keep", "dlq"):
            yield invalid("unknown_fields", each.unknown_fields, "it must be ignore, keep or dlq")
        if each.on_error not in ("dlq", "drop", "fail"):
            yield invalid("on_error", each.on_error, "it must be dlq, drop or fail")
        if each.start not in ("earliest", "latest") and not each.start.isdecimal():
            yield invalid("start", each.start, "it must be earliest, latest, or ms since 1970")
        if each.key and KEY_COLUMN.fullmatch(each.key) is None:
            yield invalid("key", each.key, "it must be a column and its type: key='id long'")
    if isinstance(each, Silver):
        if each.keys and not each.sequence_by:
            yield invalid("sequence_by", "", "of two rows with equal keys one must win: name the column that decides")
        if each.delete_when and not each.keys:
            yield invalid("delete_when", each.delete_when, "only rows with keys can be deleted")
        names = [expectation.name for expectation in each.expectations]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield PipelineFault("EXPECTATION_TAKEN", at=each.declared_at, name=each.name, expectation=name)
    if isinstance(each, Gold):
        if each.window and each.watermark is None:
            yield invalid("window", each.window, "a window needs a watermark, or its state would grow for ever")
        durations = [("window", each.window)] if each.window else []
        durations += [("watermark", each.watermark[1])] if each.watermark else []
        for option, value in durations:
            if DURATION.fullmatch(value) is None:
                yield invalid(option, value, "it must be a duration such as '10 minutes'")


def _topics_named(pipeline: Pipeline, topics: Mapping[str, TopicFacts], cluster: Topics) -> Iterator[PipelineFault]:
    for each in pipeline:
        if isinstance(each, Bronze | ToTopic) and each.topic not in topics:
            if reason := cluster.why_denied(each.topic, READ if isinstance(each, Bronze) else WRITE):
                yield PipelineFault(
                    "TOPIC_DENIED", at=each.declared_at, name=each.name, topic=each.topic, reason=reason
                )
                continue
            near = nearest(each.topic, topics)
            yield PipelineFault("TOPIC_NOT_FOUND", at=each.declared_at, nearest=near, name=each.name, topic=each.topic)


def _places(flow: Flow, storage: Places, master: str) -> Iterator[PipelineFault]:
    at = flow.declaration.declared_at
    wanted = [("TABLE_NOT_WRITABLE", flow.table)] if flow.table else []
    wanted += [] if flow.is_view else [("CHECKPOINT_NOT_WRITABLE", flow.checkpoint)]
    for condition, path in wanted:
        if reason := storage.why_not_writable(path):
            yield PipelineFault(condition, at=at, name=flow.name, path=path, reason=reason)
        elif storage.why_not_shared(path, master):
            yield PipelineFault("STORAGE_NOT_SHARED", at=at, name=flow.name, path=path, master=master)
    if not flow.is_view and flow.table and storage.has_rows(flow.table) and not storage.exists(flow.checkpoint):
        yield PipelineFault("CHECKPOINT_LOST", at=at, name=flow.name, path=flow.table)


def _columns(pipeline: Pipeline, each: Declaration, frames: Frames) -> Mapping[str, str]:
    columns = frames.columns_of(pipeline, each)
    at = each.declared_at
    if isinstance(each, Bronze | Silver) and (lost := [name for name in LINEAGE if name not in columns]):
        raise PipelineFault("LINEAGE_LOST", at=at, name=each.name, columns=", ".join(lost))
    for option, names in _columns_named(each):
        for name in names:
            if name not in columns:
                near = nearest(name, columns)
                raise PipelineFault("COLUMN_NOT_FOUND", at=at, nearest=near, name=each.name, option=option, column=name)
    for expectation in getattr(each, "expectations", ()):
        if reason := frames.why_not_boolean(pipeline, each, expectation.condition):
            raise PipelineFault(
                "EXPECTATION_INVALID", at=at, name=each.name, expectation=expectation.name, reason=reason
            )
    if (condition := getattr(each, "delete_when", "")) and (
        reason := frames.why_not_boolean(pipeline, each, condition)
    ):
        raise PipelineFault("EXPECTATION_INVALID", at=at, name=each.name, expectation="delete_when", reason=reason)
    return columns


def _columns_named(each: Declaration) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not isinstance(each, ToTopic):
        yield "partition_by", each.partition_by
    if isinstance(each, Silver):
        yield "keys", each.keys
        yield "sequence_by", (each.sequence_by,) if each.sequence_by else ()
    if isinstance(each, ToTopic) and each.key:
        yield "key", (each.key,)
