"""Flows: one for each declaration, with the places it reads and writes. Pure; touches neither disk nor Spark.

A flow's names depend only on the names of pipeline and declaration: the checkpoint, the consumer group that shows its
lag, and the application id under which its table counts batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chronik.pipeline.declarations import Bronze, Declaration, Gold, Silver, ToTopic
from chronik.pipeline.registry import Pipeline

DLQ_SUFFIX: Final = ".dlq"
EVENTS_TOPIC: Final = "__chronik_pipeline_events"


@dataclass(frozen=True, slots=True)
class Flow:
    pipeline: str
    declaration: Declaration
    source_topic: str  # the topic that its input originates from
    storage: str

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def kind(self) -> str:
        return {Bronze: "bronze", Silver: "silver", Gold: "gold", ToTopic: "to_topic"}[type(self.declaration)]

    @property
    def table(self) -> str:
        """The path of its table; empty for a flow that writes to a topic."""
        return "" if isinstance(self.declaration, ToTopic) else table_path(self.storage, self.name)

    @property
    def target(self) -> str:
        declaration = self.declaration
        return f"topic {declaration.topic}" if isinstance(declaration, ToTopic) else f"table {self.table}"

    @property
    def checkpoint(self) -> str:
        return str(Path(self.storage) / "checkpoints" / self.pipeline / self.name)

    @property
    def group(self) -> str:
        return f"{self.pipeline}.{self.name}"

    @property
    def is_view(self) -> bool:
        """Recomputed from other tables, so it has no query, checkpoint or group."""
        return isinstance(self.declaration, Gold) and not self.declaration.is_stream

    @property
    def dlq_topic(self) -> str:
        """The topic for its dead letters; empty for a flow without any."""
        return f"{self.source_topic}{DLQ_SUFFIX}" if isinstance(self.declaration, Bronze | Silver) else ""


def table_path(storage: str, name: str) -> str:
    return str(Path(storage) / "tables" / name)


def flows_of(pipeline: Pipeline, storage: str) -> list[Flow]:
    """In the order of declaration. A declaration without a source topic has no flow; `plan` reports why."""
    found = []
    for declaration in pipeline:
        bottom = pipeline.topic_of(declaration)
        if bottom is not None and not (isinstance(declaration, Bronze) and not declaration.is_stored):
            found.append(Flow(pipeline.name, declaration, bottom.topic, storage))
    return found
