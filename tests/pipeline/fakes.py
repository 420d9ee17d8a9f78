"""A cluster, a storage and frames for plans that need no broker, no disk and no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import LINEAGE, Declaration
from chronik.pipeline.plan import Plan, TopicFacts, dry_run
from chronik.pipeline.registry import Pipeline, load


@dataclass
class FakeCluster:
    names: tuple[str, ...] = ("orders",)
    is_down: bool = False
    hidden: tuple[str, ...] = ()

    def why_denied(self, topic: str, operation: str) -> str:
        return f"may not {operation} {topic}" if topic in self.hidden else ""

    def topics(self) -> Mapping[str, TopicFacts]:
        if self.is_down:
            raise PipelineFault("BROKER_NOT_REACHED", bootstrap="nowhere:1", reason="refused")
        return {name: TopicFacts(f"id-of-{name}", 3) for name in self.names}


@dataclass
class FakeStorage:
    root: str = "/lake"
    full: tuple[str, ...] = ()  # paths that cannot be written
    local: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()  # tables with rows
    present: tuple[str, ...] = ()

    def why_not_writable(self, path: str) -> str:
        return "no space" if path in self.full else ""

    def why_not_shared(self, path: str, master: str) -> str:
        return "it is here" if master and path in self.local else ""

    def has_rows(self, table: str) -> bool:
        return table in self.tables

    def exists(self, path: str) -> bool:
        return path in self.present


@dataclass
class FakeFrames:
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    loses_lineage: tuple[str, ...] = ()

    def columns_of(self, pipeline: Pipeline, declaration: Declaration) -> Mapping[str, str]:
        lineage = () if declaration.name in self.loses_lineage else LINEAGE
        return dict.fromkeys((*self.columns.get(declaration.name, ("id",)), *lineage), "bigint")

    def why_not_boolean(self, pipeline: Pipeline, declaration: Declaration, condition: str) -> str:
        return "no such column" if "nowhere" in condition else ""


def plan_of(folder: Path, text: str, *, name: str = "shop.py", **given: object) -> Plan:
    """The plan of a file with this text."""
    file = folder / name
    file.write_text(text)
    cluster = given.pop("cluster", FakeCluster())
    return dry_run(load(file), cluster=cluster, **given)  # type: ignore[arg-type]
