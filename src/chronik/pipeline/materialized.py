"""A topic that is kept as a table: its settings, and the state of its table. Pure.

Settings are the topic's own chronik.table.* configs, which the controller validates, so any Kafka tool can set them.
They become the same declarations as in a pipeline file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from chronik.pipeline.declarations import DELETED, LINEAGE, UNKNOWN, Bronze, Declaration, Silver

PIPELINE: Final = "materialized"
STATES_TOPIC: Final = "__chronik_tables"  # compacted, keyed by topic
KEY_COLUMN: Final = "_key"


class State(StrEnum):
    PENDING = "PENDING"  # not started: `chronik materialize` does not run, or there is no record yet
    BACKFILL = "BACKFILL"  # lag above its target
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"  # stopped at a record that cannot be decoded (on.error=suspend)
    FAILED = "FAILED"  # stopped by another error; retried later


@dataclass(frozen=True, slots=True)
class TableSettings:
    topic: str
    mode: str = "append"
    decode: str = "none"
    partition_by: tuple[str, ...] = ()
    target_lag_ms: int = 10_000
    on_error: str = "dlq"
    backfill: str = "earliest"

    @classmethod
    def of(cls, topic: str, configs: Mapping[str, str]) -> TableSettings | None:
        """None for a topic without a table, or from a broker that does not have these configs."""
        if configs.get("chronik.table.enable", "false").lower() != "true":
            return None
        named = configs.get("chronik.table.partition.by", "")
        return cls(
            topic,
            mode=configs["chronik.table.mode"],
            decode=configs["chronik.table.decode"],
            partition_by=tuple(name.strip() for name in named.split(",") if name.strip()),
            target_lag_ms=int(configs["chronik.table.target.lag.ms"]),
            on_error=configs["chronik.table.on.error"],
            backfill=configs["chronik.table.backfill"],
        )

    @property
    def table(self) -> str:
        """The table's name: the topic's, with invalid characters replaced."""
        name = re.sub(r"\W", "_", self.topic, flags=re.ASCII)
        return name if name[0].isalpha() else f"t{name}"

    def declarations(self, schema: str) -> list[Declaration]:
        """With the schema of values if they are decoded."""
        is_by_key = self.mode == "upsert"
        bronze = Bronze(
            f"{self.table}_records" if is_by_key else self.table,
            self.topic,
            decode=self.decode,
            schema=schema,
            key=f"{KEY_COLUMN} string" if is_by_key else "",  # otherwise records without a key are accepted
            on_error={"suspend": "fail"}.get(self.on_error, self.on_error),
            start=self.backfill,
            is_stored=not is_by_key,
            partition_by=() if is_by_key else self.partition_by,
        )
        if not is_by_key:
            return [bronze]
        silver = Silver(
            self.table,
            (bronze.name,),
            keys=(KEY_COLUMN,),
            sequence_by="_offset",
            delete_when=DELETED,
            partition_by=self.partition_by,
        )
        return [bronze, silver]


def schema_of_columns(columns: Sequence[tuple[str, str]]) -> str:
    """The schema of values from an existing table: all columns but its bookkeeping."""
    own = {*LINEAGE, DELETED, UNKNOWN, KEY_COLUMN}
    return ", ".join(f"`{name}` {kind}" for name, kind in columns if name not in own)


@dataclass(frozen=True, slots=True)
class TableState:
    """The supervisor's report on a table, as a record of STATES_TOPIC."""

    topic: str
    state: str
    table: str = ""
    version: int = -1
    rows_dead: int = 0
    error: str = ""
    time_ms: int = 0

    def encoded(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, value: bytes | None) -> TableState | None:
        """None for a record that is not a state: any client may write to the topic."""
        try:
            told = json.loads(value or b"")
            return cls(**{name: given for name, given in told.items() if name in cls.__dataclass_fields__})
        except (AttributeError, TypeError, ValueError):
            return None


def state_of(*, is_active: bool, is_refused: bool, has_begun: bool, lag_ms: int | None, target_lag_ms: int) -> State:
    if is_refused:
        return State.SUSPENDED
    if not is_active:
        return State.FAILED
    if not has_begun:
        return State.PENDING
    return State.BACKFILL if lag_ms is not None and lag_ms > target_lag_ms else State.RUNNING
