"""What a query reads next: from options, checkpoint and cluster to ranges of offsets. Runs in the driver; no Spark.

A stream calls `initial` (where to start, once), `next_end` (how far the next batch goes), and `tasks` (what lies
between). `tasks` depends only on two positions and the options, so a repeated batch covers the same records. A batch
query calls `batch_tasks`.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

from chronik.client.topology import TopicPartition
from chronik.pipeline import admission, splitting
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.offsets import OffsetRange, Position, ranges, require_same_topics
from chronik.pipeline.options import Edge, Missing, SourceOptions
from chronik.pipeline.topic_pattern import topic_pattern
from chronik.runtime.invariants import check
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chronik.pipeline.cluster import KnownTopic

NO_LIMIT: Final = None

log = logging.getLogger(__name__)


class AsksCluster(Protocol):
    """`cluster.BlockingCluster`, or its replacement in tests."""

    def topics(self, names: Iterable[str] | None) -> dict[str, KnownTopic]: ...
    def offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: int
    ) -> dict[TopicPartition, int | None]: ...
    def committed(self, group_id: str) -> dict[TopicPartition, tuple[int, str]]: ...


class Planner:
    def __init__(
        self, options: SourceOptions, cluster: AsksCluster, *, now_ms: Callable[[], int] | None = None
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._now_ms = now_ms or (lambda: time.monotonic_ns() // 1_000_000)
        self._last_batch_ms = self._now_ms()  # when a batch was last started, for maxTriggerDelay
        self._initial: Position | None = None
        self._target: Position | None = None  # set by `freeze`: the end of the query
        self.latest_seen: Position | None = None  # the cluster's end offsets at the last `next_end`

    # --- streams

    def initial(self) -> Position:
        """Where a new query starts. Constant: Spark asks more than once."""
        if self._initial is None:
            topics = self._topics(known=())
            partitions = _partitions_of(topics, self._options)
            self._initial = Position(
                _ids(topics), self._resolve(self._options.starting, partitions, "starting"), is_initial=True
            )
        return self._initial

    def freeze(self) -> None:
        """For Trigger.AvailableNow: the query ends at the current end."""
        self._target = self._latest(known=())

    def next_end(self, start: Position, offsets_max: int | None = NO_LIMIT, offsets_min: int | None = None) -> Position:
        """The end of the batch after `start`: `start` itself if there is nothing, or not enough yet.

        If a log became shorter, and data loss is allowed, the query goes back to its end.
        """
        latest = self._target or self._latest(known=start.topic_ids)
        self.latest_seen = latest
        require_same_topics(start, latest.topic_ids)
        self._require_nothing_lost(start, latest)
        began = self._beginnings(start, latest)
        froms = {**began, **start.offsets}
        if self._target is None and not admission.is_enough(
            froms,
            latest.offsets,
            offsets_min=offsets_min,
            waited_ms=self._now_ms() - self._last_batch_ms,
            delay_ms_max=self._options.max_trigger_delay_ms,
        ):
            return start
        end = latest.offsets if offsets_max is None else admission.limited(froms, latest.offsets, offsets_max)
        if end == start.offsets:
            return start
        check(
            all(end[at] <= latest.offsets[at] for at in end),
            "19 a batch ends within the log",
            end=end,
            latest=latest.offsets,
        )
        check(
            not self._options.fail_on_data_loss or all(end[at] >= froms.get(at, 0) for at in end),
            "19 a batch begins where the last one ended",
            start=froms,
            end=end,
        )
        self._last_batch_ms = self._now_ms()
        return Position(latest.topic_ids, end, began={**start.offsets, **began} if start.is_initial else began)

    def tasks(self, start: Position, end: Position) -> list[OffsetRange]:
        return self._split(ranges(start, end))

    # --- batches

    def batch_tasks(self) -> list[OffsetRange]:
        topics = self._topics(known=())
        partitions = _partitions_of(topics, self._options)
        start = Position(_ids(topics), self._resolve(self._options.starting, partitions, "starting"))
        end = Position(_ids(topics), self._resolve(self._options.ending, partitions, "ending"))
        return self._split(ranges(start, end))

    # --- the cluster

    def _split(self, whole: list[OffsetRange]) -> list[OffsetRange]:
        return splitting.split(
            whole,
            partitions_min=self._options.partitions_min,
            records_max=self._options.records_per_partition_max,
        )

    def _topics(self, known: Iterable[str]) -> dict[str, KnownTopic]:
        """The topics to read. A missing one is an error; if the query has read it before, its data is lost."""
        options = self._options
        if options.pattern is not None:
            pattern = topic_pattern(options.pattern)
            return {name: topic for name, topic in self._cluster.topics(None).items() if pattern.search(name)}
        names = options.topics or tuple(dict.fromkeys(at.topic for at in options.assigned or ()))
        found = self._cluster.topics(names)
        if missing := [name for name in names if name not in found and name not in known]:
            option = "assign" if options.assigned else "subscribe"
            raise PipelineError("TOPIC_NOT_FOUND", topics=", ".join(missing), option=option)
        return found

    def _latest(self, known: Iterable[str]) -> Position:
        topics = self._topics(known)
        wanted = dict.fromkeys(_partitions_of(topics, self._options), LATEST)
        found = self._cluster.offsets(wanted, self._options.isolation_level)
        return Position(_ids(topics), {at: offset or 0 for at, offset in found.items()})

    def _beginnings(self, start: Position, latest: Position) -> dict[TopicPartition, int]:
        """Where new partitions begin. Their already deleted records were never read."""
        new = dict.fromkeys([at for at in latest.offsets if at not in start.offsets], EARLIEST)
        found = self._cluster.offsets(new, self._options.isolation_level)
        for at, offset in found.items():
            if offset:
                self._lose(at, 0, offset, offset, latest.offsets[at])
        return {at: offset or 0 for at, offset in found.items()}

    def _require_nothing_lost(self, start: Position, latest: Position) -> None:
        gone = sorted(at for at in start.offsets if at not in latest.offsets)
        if gone:
            shown = ", ".join(map(str, gone))
            loss = PipelineError("PARTITION_NOT_FOUND", partitions=shown, reason="the query has read it before")
            if self._options.fail_on_data_loss:
                raise loss
            log.warning("%s", loss)
        for at, offset in start.offsets.items():
            if at in latest.offsets and latest.offsets[at] < offset:
                self._lose(at, latest.offsets[at], offset, 0, latest.offsets[at])

    def _lose(self, at: TopicPartition, start: int, end: int, log_start: int, log_end: int) -> None:
        loss = PipelineError(
            "DATA_LOSS",
            topic=at.topic,
            partition=at.partition,
            start=start,
            end=end - 1,
            log_start=log_start,
            log_end=log_end - 1,
        )
        if self._options.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)

    def _resolve(self, edge: Edge, partitions: list[TopicPartition], which: str) -> dict[TopicPartition, int]:
        """Offsets for positions, times, or a group's commits."""
        given: Mapping[TopicPartition, int]
        if edge.position is not None:
            return self._look_up(dict.fromkeys(partitions, edge.position))
        if edge.is_group:
            committed = self._cluster.committed(self._options.group_id or "")
            earliest = self._look_up({at: EARLIEST for at in partitions if at not in committed})
            return {at: committed[at][0] if at in committed else earliest[at] for at in partitions}
        if edge.timestamp_ms is not None:
            return self._at_times(dict.fromkeys(partitions, edge.timestamp_ms), which)
        if edge.timestamps_ms is not None:
            _require_all(edge.timestamps_ms, partitions, f"{which}OffsetsByTimestamp")
            return self._at_times(edge.timestamps_ms, which)
        given = edge.offsets or {}
        _require_all(given, partitions, f"{which}Offsets")
        positions = self._look_up({at: offset for at, offset in given.items() if offset < 0})
        return {at: positions.get(at, given[at]) for at in partitions}

    def _look_up(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {at: offset or 0 for at, offset in self._cluster.offsets(wanted, self._options.isolation_level).items()}

    def _at_times(self, times_ms: Mapping[TopicPartition, int], which: str) -> dict[TopicPartition, int]:
        """If no record is that late, an end is the log's end; a start is an error unless the user chose otherwise."""
        found = self._cluster.offsets(times_ms, self._options.isolation_level)
        late = [at for at, offset in found.items() if offset is None]
        if late and which == "starting" and self._options.missing is Missing.ERROR:
            at = min(late)
            raise PipelineError("NO_OFFSET_AT_TIME", topic=at.topic, partition=at.partition, timestamp_ms=times_ms[at])
        ends = self._look_up(dict.fromkeys(late, LATEST))
        return {at: ends[at] if offset is None else offset for at, offset in found.items()}


def _partitions_of(topics: Mapping[str, KnownTopic], options: SourceOptions) -> list[TopicPartition]:
    exist = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
    if options.assigned is None:
        return exist
    if missing := [at for at in options.assigned if at.topic in topics and at not in exist]:
        shown = ", ".join(map(str, missing))
        raise PipelineError("PARTITION_NOT_FOUND", partitions=shown, reason="correct the option 'assign'")
    return [at for at in options.assigned if at.topic in topics]


def _ids(topics: Mapping[str, KnownTopic]) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in topics.items()}


def _require_all(given: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str) -> None:
    if missing := sorted(set(partitions) - given.keys()):
        reason = f"{', '.join(map(str, missing))} is missing; -1 is the end of a partition, -2 its beginning"
        raise PipelineError("PARTITIONS_MISMATCH", option=option, reason=reason)
    if unknown := sorted(given.keys() - set(partitions)):
        reason = f"{', '.join(map(str, unknown))} is not among what is read"
        raise PipelineError("PARTITIONS_MISMATCH", option=option, reason=reason)
