"""Notes that describe how a table is computed. With them, the table can be read together with records that it does not
have yet.

When a run starts a flow, it writes the note to the file `_flow.json` in the table's folder; Delta readers skip names
that begin with `_`. A flow is plain if its rows are the decoded records: its functions return their input, and no
expectation rejects rows. The rows of plain flows can be computed without Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from chronik.pipeline.declarations import DELETED, Bronze, Declaration, Gold, Silver, ToTopic
from chronik.pipeline.errors import PipelineError, hint_for
from chronik.pipeline.expectations import OnFail
from chronik.pipeline.flows import Flow, flows_of
from chronik.pipeline.registry import Pipeline

FILE: Final = "_flow.json"


@dataclass(frozen=True, slots=True)
class FlowNote:
    """The data about a flow that a reader needs. Lists are tuples; texts are as declared."""

    name: str
    pipeline: str
    file: str
    topic: str
    checkpoint: str
    is_plain: bool
    decode: str
    schema: str
    key: str
    unknown_fields: str
    value_bytes_max: int | None
    keys: tuple[str, ...]
    sequence_by: str
    delete_when: str

    @classmethod
    def of(cls, pipeline: Pipeline, flow: Flow) -> FlowNote:
        declaration, bottom = flow.declaration, pipeline.topic_of(flow.declaration)
        if bottom is None or isinstance(declaration, Gold | ToTopic):
            raise PipelineError("READ_NOT_FROM_RECORDS", name=flow.name)
        silver = declaration if isinstance(declaration, Silver) else Silver(flow.name, ())
        return cls(
            name=flow.name,
            pipeline=pipeline.name,
            file=os.path.abspath(pipeline.file) if pipeline.file else "",
            topic=flow.source_topic,
            checkpoint=flow.checkpoint,
            is_plain=all(map(_is_plain, _chain(pipeline, declaration))),
            decode=bottom.decode,
            schema=bottom.schema,
            key=bottom.key,
            unknown_fields=bottom.unknown_fields,
            value_bytes_max=bottom.value_bytes_max,
            keys=silver.keys,
            sequence_by=silver.sequence_by,
            delete_when=silver.delete_when,
        )

    @property
    def bronze(self) -> Bronze:
        """The bronze of a plain flow, with the flow's own name."""
        return Bronze(
            self.name,
            self.topic,
            decode=self.decode,
            schema=self.schema,
            key=self.key,
            unknown_fields=self.unknown_fields,
            value_bytes_max=self.value_bytes_max,
        )


def write_note(pipeline: Pipeline, flow: Flow) -> None:
    """Replaces the file atomically: a reader sees the note of this run or of the previous one."""
    path = Path(flow.table, FILE)
    text = json.dumps(asdict(FlowNote.of(pipeline, flow)), indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_text() == text:
        return
    temporary = path.with_name(f"{FILE}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def note_of(table: str) -> FlowNote | None:
    """None if no run of this release has written to the table."""
    try:
        told: dict[str, Any] = json.loads(Path(table, FILE).read_text())
    except (OSError, ValueError):
        return None
    known = {name: told[name] for name in (field.name for field in fields(FlowNote)) if name in told}
    note = FlowNote(**known)
    return replace(note, keys=tuple(note.keys))


def declared(pipeline: Pipeline, storage: str, name: str) -> Flow:
    """The flow that computes a table."""
    flows = {flow.name: flow for flow in flows_of(pipeline, storage)}
    if name not in flows:
        raise PipelineError("READ_FLOW_NOT_DECLARED", file=pipeline.file, name=name, hint=hint_for(name, flows))
    return flows[name]


def _chain(pipeline: Pipeline, declaration: Declaration) -> Sequence[Declaration]:
    found = [declaration]
    while found[-1].reads and (before := pipeline.named(found[-1].reads[0])) is not None:
        found.append(before)
    return found


def _is_plain(declaration: Declaration) -> bool:
    if isinstance(declaration, Silver):
        if any(each.on_fail is not OnFail.WARN for each in declaration.expectations):
            return False
        if declaration.delete_when not in ("", DELETED):
            return False
    return declaration.transform is None or _returns_what_it_gets(declaration.transform)


def _returns_what_it_gets(function: Any) -> bool:
    given = object()
    try:
        return function(given) is given
    except Exception:  # noqa: BLE001 - a function that uses its argument in any way fails, in a way of its own
        return False
