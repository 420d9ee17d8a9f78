"""What runs: one flow for each declaration, with the places it reads and writes. Pure; touches neither disk nor Spark.

A flow's names follow from the pipeline's and the declaration's, and from nothing else: the checkpoint, the consumer
group in which its lag can be seen, and the application id under which its table counts batches.
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
    source_topic: str  # the one at the bottom of everything it reads
    storage: str

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def kind(self) -> str:
        return {Bronze: "bronze", Silver: "silver", Gold: "gold", ToTopic: "to_topic"}[type(self.declaration)]

    @property
    def table(self) -> str:
        """Where its table is; nothing for a flow that writes to a topic."""
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
        """Computed anew from other tables, so without a query, a checkpoint and a group of its own."""
        return isinstance(self.declaration, Gold) and not self.declaration.is_stream

    @property
    def dlq_topic(self) -> str:
        """Where its dead letters go; nothing for a flow that has none."""
        return f"{self.source_topic}{DLQ_SUFFIX}" if isinstance(self.declaration, Bronze | Silver) else ""


def table_path(storage: str, name: str) -> str:
    return str(Path(storage) / "tables" / name)


def flows_of(pipeline: Pipeline, storage: str) -> list[Flow]:
    """In the order of declaration. A declaration that leads to no topic has no flow; `plan` says why."""
    found = []
    for declaration in pipeline:
        bottom = pipeline.topic_of(declaration)
        if bottom is not None and not (isinstance(declaration, Bronze) and not declaration.is_stored):
            found.append(Flow(pipeline.name, declaration, bottom.topic, storage))
    return found
