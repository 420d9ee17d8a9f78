"""A pipeline under test: its file, its broker, its folder, and checks of its results that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronik.pipeline import replaying
from chronik.pipeline.flows import Flow
from chronik.pipeline.frames import EmptyFrames
from chronik.pipeline.letters import Letter, letter_of
from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.pipeline.plan import Plan, dry_run
from chronik.pipeline.registry import load
from chronik.pipeline.running import Pace, Run
from chronik.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Bench:
    spark: SparkSession
    cluster: LiveCluster
    file: Path
    storage: Path

    def send(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        self.cluster.send(topic, [Outgoing(key, value) for key, value in records])

    def plan(self) -> Plan:
        places = Storage(self.storage)
        plan = dry_run(load(self.file), cluster=self.cluster, storage=places, frames=EmptyFrames(self.spark))
        assert plan.errors == ()
        return plan

    def run(self, *, only: str | None = None, offsets_per_batch_max: int | None = None) -> Run:
        """Everything that is there now, through all flows."""
        with Run(self.spark, self.plan(), self.cluster, Pace(None, offsets_per_batch_max), only=only) as run:
            run.start()
            run.wait()
        return run

    def flow(self, name: str) -> Flow:
        return next(planned.flow for planned in self.plan().flows if planned.flow.name == name)

    def replay(self, name: str, fix: replaying.Fix | None = None) -> replaying.Replayed:
        plan = self.plan()
        flow = next(planned.flow for planned in plan.flows if planned.flow.name == name)
        return replaying.replay(self.spark, plan, flow, self.cluster.options, fix)

    def rows(self, table: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        found: list[dict[str, Any]] = (
            DeltaTable(str(self.storage / "tables" / table))
            .to_pyarrow_table(columns=list(columns) if columns else None)
            .to_pylist()
        )
        return found

    def letters(self, topic: str, flow: str | None = None) -> list[Letter]:
        found: list[Letter] = []

        def take(at: Any, record: Any) -> None:
            letter = letter_of(record)
            assert letter is not None
            if flow in (None, letter.flow):
                found.append(letter)

        self.cluster.read(topic, take)
        return found


def positions(rows: Iterable[Any]) -> list[tuple[int, int]]:
    """Where rows or letters come from."""
    return sorted(
        (row["_partition"], row["_offset"]) if isinstance(row, dict) else (row.partition, row.offset) for row in rows
    )


def as_json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()
