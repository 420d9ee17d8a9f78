"""Events of runs, as records of the topic __chronik_pipeline_events: one for each batch, start and end of a flow.

The value is one JSON object, the key is pipeline/flow, so a partition has a flow's history in order. Reports, `status`
and the console read them; pipelines do not depend on them. Times are integers in ms since 1970, counts are exact.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from chronik.client.errors import ClientError, Refused
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.flows import EVENTS_TOPIC
from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

logger = logging.getLogger(__name__)

PARTITION_COUNT: Final = 1  # a few events a second; one partition gives one order to everything
RETENTION_MS: Final = 7 * 86_400_000
STARTED, BATCH, STOPPED = "started", "batch", "stopped"


@dataclass(frozen=True, slots=True)
class Event:
    kind: str  # started | batch | stopped
    pipeline: str
    flow: str
    run_id: str  # identifies one `chronik pipeline run`
    time_ms: int
    batch_id: int = -1
    rows_in: int = 0
    rows_out: int = 0
    rows_dead: int = 0
    rows_dropped: int = 0
    rows_late: int = 0  # behind the watermark, so not in any result
    failed: Mapping[str, int] = field(default_factory=dict)  # failed rows by expectation
    duration_ms: int = 0
    lag_messages: int = -1  # -1: not measured
    lag_ms: int = -1
    table_version: int = -1
    reads: tuple[str, ...] = ()
    writes: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)  # of chronik, Spark, deltalake
    error: str = ""

    @property
    def key(self) -> str:
        return f"{self.pipeline}/{self.flow}"


class EventLog:
    """Writes events. If the cluster refuses one, it is logged; the flow is not affected."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster

    def prepare(self) -> None:
        self._cluster.create_topic(EVENTS_TOPIC, PARTITION_COUNT, {"retention.ms": str(RETENTION_MS)})

    def write(self, event: Event) -> None:
        value = json.dumps(asdict(event), ensure_ascii=False, separators=(",", ":"))
        try:
            self._cluster.send(EVENTS_TOPIC, [Outgoing(event.key.encode(), value.encode())])
        except (ClientError, PipelineError) as error:
            logger.warning("event %s of %s was not recorded: %s", event.kind, event.key, error)


def read_events(cluster: LiveCluster, pipeline: str | None = None) -> list[Event]:
    """All stored events, oldest first; only those of `pipeline` if given."""
    found: list[Event] = []

    def take(at: TopicPartition, record: Record) -> None:
        event = parse(record.value)
        if event is not None and pipeline in (None, event.pipeline):
            found.append(event)

    try:
        cluster.read(EVENTS_TOPIC, take)
    except Refused as error:
        if error.kafka_error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    return found


def parse(value: bytes | None) -> Event | None:
    """None for a record that is not an event: any client may write to the topic. Fields of later releases are
    ignored."""
    try:
        document = json.loads(value or b"")
        return Event(**{name: _shaped(name, given) for name, given in document.items() if name in _FIELDS})
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None


def _shaped(name: str, given: Any) -> Any:
    """Raises TypeError for a value of another kind than a run writes."""
    if name == "reads":
        given = tuple(given)
        is_right = all(isinstance(each, str) for each in given)
    elif name in ("failed", "versions"):
        kind = int if name == "failed" else str
        is_right = isinstance(given, dict) and all(type(each) is kind for each in given.values())
    else:
        is_right = isinstance(given, str) if name in _TEXTS else type(given) is int and abs(given) < 2**63
    if not is_right:
        raise TypeError(name)
    return given


_TEXTS: Final = frozenset({"kind", "pipeline", "flow", "run_id", "writes", "error"})
_FIELDS: Final = frozenset(Event.__dataclass_fields__)
