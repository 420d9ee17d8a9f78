"""Planning against a cluster that is three dictionaries: where queries start, continue, and stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from chronik.client.errors import Unreachable
from chronik.client.topology import TopicPartition
from chronik.pipeline.cluster import KnownTopic
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.groups import QueryGroup
from chronik.pipeline.offsets import OffsetRange, Position
from chronik.pipeline.options import SourceOptions, parse
from chronik.pipeline.planning import Planner
from chronik.wire.offset_specs import EARLIEST, LATEST

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class FakeCluster:
    """Logs from `starts` to `ends`, with one record a millisecond: the record at offset n is of time 1000 + n."""

    def __init__(self, ends: dict[TopicPartition, int], starts: dict[TopicPartition, int] | None = None) -> None:
        self.ends = ends
        self.starts = starts or {}
        self.ids: dict[str, str] = {}
        self.groups: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
        self.is_away = False

    def topics(self, names: Iterable[str] | None) -> dict[str, KnownTopic]:
        wanted = set(names) if names is not None else {at.topic for at in self.ends}
        found: dict[str, list[int]] = {}
        for at in sorted(self.ends):
            if at.topic in wanted:
                found.setdefault(at.topic, []).append(at.partition)
        return {topic: KnownTopic(self.ids.get(topic, f"id-{topic}"), tuple(some)) for topic, some in found.items()}

    def offsets(self, wanted: Mapping[TopicPartition, int], isolation_level: int) -> dict[TopicPartition, int | None]:
        return {at: self._offset(at, asked) for at, asked in wanted.items()}

    def _offset(self, at: TopicPartition, asked: int) -> int | None:
        first, end = self.starts.get(at, 0), self.ends[at]
        if asked < 0:
            return end if asked == LATEST else first
        return max(first, asked - 1000) if asked - 1000 < end else None

    def committed(self, group_id: str) -> dict[TopicPartition, tuple[int, str]]:
        if self.is_away:
            raise Unreachable("the coordinator is away")
        return self.groups.get(group_id, {})

    def commit(self, group_id: str, positions: Mapping[TopicPartition, int], *, text: str = "") -> None:
        if self.is_away:
            raise Unreachable("the coordinator is away")
        self.groups.setdefault(group_id, {}).update({at: (offset, text) for at, offset in positions.items()})

    def list_groups(self) -> list[str]:
        return sorted(self.groups)

    def delete_group(self, group_id: str) -> None:
        del self.groups[group_id]


def options(*, is_stream: bool = True, **given: str) -> SourceOptions:
    strategy = {} if {"subscribePattern", "assign"} & given.keys() else {"subscribe": "a"}
    return parse({"kafka.bootstrap.servers": "localhost", **strategy, **given}, is_stream=is_stream)


def stream(cluster: FakeCluster, **given: Any) -> Planner:
    return Planner(options(**given), cluster, now_ms=lambda: 0)


def batch(cluster: FakeCluster, **given: Any) -> list[tuple[str, int, int, int]]:
    tasks = Planner(options(is_stream=False, **given), cluster).batch_tasks()
    assert all(task.topic_id == f"id-{task.topic}" for task in tasks)
    return [(task.topic, task.partition, task.start, task.end) for task in tasks]


def refused(condition: str) -> Any:
    return pytest.raises(PipelineError, match=rf"^\[{condition}\]")


LOGS = {A0: 100, A1: 50, B0: 7, TopicPartition("bb", 0): 9}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [("a", 0, 10, 100), ("a", 1, 0, 50)]),
        ({"endingOffsets": '{"a":{"0":20,"1":-1}}'}, [("a", 0, 10, 20), ("a", 1, 0, 50)]),
        ({"startingOffsets": '{"a":{"0":-2,"1":40}}'}, [("a", 0, 10, 100), ("a", 1, 40, 50)]),
        ({"startingTimestamp": "1030"}, [("a", 0, 30, 100), ("a", 1, 30, 50)]),
        ({"startingTimestamp": "1030", "endingTimestamp": "1060"}, [("a", 0, 30, 60), ("a", 1, 30, 50)]),
        ({"startingOffsetsByTimestamp": '{"a":{"0":1099,"1":1000}}'}, [("a", 0, 99, 100), ("a", 1, 0, 50)]),
        ({"startingTimestamp": "1060", "startingOffsetsByTimestampStrategy": "latest"}, [("a", 0, 60, 100)]),
        ({"assign": '{"a":[1],"b":[0]}'}, [("a", 1, 0, 50), ("b", 0, 0, 7)]),
        ({"subscribePattern": "^[ab]$"}, [("a", 0, 10, 100), ("a", 1, 0, 50), ("b", 0, 0, 7)]),
        ({"subscribePattern": "x"}, []),
        ({"subscribePattern": "b"}, [("b", 0, 0, 7), ("bb", 0, 0, 9)]),  # anywhere in the name, as Spark has it
        ({"minPartitions": "3"}, [("a", 0, 10, 55), ("a", 0, 55, 100), ("a", 1, 0, 50)]),
        ({"startingOffsets": "group", "kafka.group.id": "g"}, [("a", 0, 70, 100), ("a", 1, 0, 50)]),
    ],
)
def test_a_batch_reads_what_the_options_say(given: dict[str, str], expected: list[tuple[str, int, int, int]]) -> None:
    """Each way to say where to start and to end."""
    cluster = FakeCluster(dict(LOGS), {A0: 10})
    cluster.groups["g"] = {A0: (70, "")}
    assert batch(cluster, **given) == expected


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({"subscribe": "missing,a"}, "TOPIC_NOT_FOUND"),
        ({"assign": '{"a":[5]}'}, "PARTITION_NOT_FOUND"),
        ({"assign": '{"missing":[0]}'}, "TOPIC_NOT_FOUND"),
        ({"startingOffsets": '{"a":{"0":5}}'}, "PARTITIONS_MISMATCH"),
        ({"startingOffsets": '{"a":{"0":5,"1":5,"2":5}}'}, "PARTITIONS_MISMATCH"),
        ({"endingOffsetsByTimestamp": '{"b":{"0":5}}'}, "PARTITIONS_MISMATCH"),
        ({"startingTimestamp": "1060"}, "NO_OFFSET_AT_TIME"),
    ],
)
def test_what_the_cluster_does_not_have_is_refused_by_name(given: dict[str, str], condition: str) -> None:
    """The user learns which topic, partition or time it is before anything is read."""
    with refused(condition):
        batch(FakeCluster(dict(LOGS)), **given)


def test_a_stream_starts_once_and_goes_on_from_there() -> None:
    """Spark asks for the start more than once; `latest` must not change in between."""
    cluster = FakeCluster(dict(LOGS))
    planner = stream(cluster)
    start = planner.initial()
    cluster.ends[A0] = 130
    assert planner.initial() == start == Position({"a": "id-a"}, {A0: 100, A1: 50}, is_initial=True)
    end = planner.next_end(start)
    assert planner.tasks(start, end) == [OffsetRange("a", "id-a", 0, 100, 130)]
    assert planner.next_end(end) is end
    restarted = stream(cluster)
    assert restarted.tasks(restarted.initial(), Position.from_json(end.to_json())) == planner.tasks(start, end)


def test_a_new_partition_starts_at_its_beginning() -> None:
    """Records written to it before it was noticed are part of the topic."""
    cluster = FakeCluster({A0: 100})
    planner = stream(cluster)
    start = planner.next_end(planner.initial())
    start = Position(start.topic_ids, start.offsets)
    cluster.ends[A1] = 5
    end = planner.next_end(start)
    assert planner.tasks(start, end) == [OffsetRange("a", "id-a", 1, 0, 5)]
    assert end.began == {A1: 0}


def test_a_new_partition_whose_beginning_is_gone_is_data_loss() -> None:
    """It was created and aged between two batches: the deleted records were never read."""
    cluster = FakeCluster({A0: 100, A1: 50}, {A1: 20})
    known = Position({"a": "id-a"}, {A0: 100})
    with refused("DATA_LOSS") as lost:
        stream(cluster).next_end(known)
    assert (lost.value.parameters["start"], lost.value.parameters["end"]) == (0, 19)
    planner = stream(cluster, failOnDataLoss="false")
    assert planner.tasks(known, planner.next_end(known)) == [OffsetRange("a", "id-a", 1, 20, 50)]


def test_a_topic_made_anew_stops_the_query_whatever_its_options() -> None:
    """failOnDataLoss=false is about records; this would mix two topics in one table."""
    cluster = FakeCluster({A0: 100})
    known = Position({"a": "another id"}, {A0: 40})
    for given in ({}, {"failOnDataLoss": "false"}):
        with refused("TOPIC_ID_CHANGED"):
            stream(cluster, **given).next_end(known)


def test_a_topic_or_partition_that_went_away_stops_the_query_or_is_left_out() -> None:
    """By names, by pattern, and a single partition."""
    known = Position({"a": "id-a", "b": "id-b"}, {A0: 10, A1: 10, B0: 7})
    for strategy in ({"subscribe": "a,b"}, {"subscribePattern": "."}, {"assign": '{"a":[0,1],"b":[0]}'}):
        cluster = FakeCluster({A0: 100, A1: 50})
        with refused("PARTITION_NOT_FOUND") as gone:
            stream(cluster, **strategy).next_end(known)
        assert gone.value.parameters["partitions"] == "b-0"
        left = stream(cluster, failOnDataLoss="false", **strategy).next_end(known)
        assert left.offsets == {A0: 100, A1: 50}


def test_a_log_that_became_shorter_stops_the_query() -> None:
    """An unclean election took records back that were read already."""
    cluster = FakeCluster({A0: 30})
    known = Position({"a": "id-a"}, {A0: 40})
    with refused("DATA_LOSS") as lost:
        stream(cluster).next_end(known)
    assert (lost.value.parameters["start"], lost.value.parameters["end"]) == (30, 39)
    planner = stream(cluster, failOnDataLoss="false")
    shorter = planner.next_end(known)
    cluster.ends[A0] = 35
    assert planner.tasks(known, shorter) == []  # records that are written there from now on are new
    assert planner.tasks(shorter, planner.next_end(shorter)) == [OffsetRange("a", "id-a", 0, 30, 35)]


def test_limits_hold_and_everything_means_everything() -> None:
    """maxOffsetsPerTrigger bounds a batch; a trigger that reads all ignores it."""
    cluster = FakeCluster({A0: 900, A1: 100})
    planner = stream(cluster, startingOffsets="earliest")
    start = planner.initial()
    end = planner.next_end(start, offsets_max=100)
    assert sum(task.size for task in planner.tasks(start, end)) == 100
    everything = planner.next_end(start, offsets_max=None)
    assert everything.offsets == {A0: 900, A1: 100}


def test_a_batch_waits_for_enough_offsets_but_not_for_ever() -> None:
    """minOffsetsPerTrigger with maxTriggerDelay, by a clock that the test moves."""
    now = [0]
    cluster = FakeCluster({A0: 5})
    given = options(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1s")
    planner = Planner(given, cluster, now_ms=lambda: now[0])
    start = planner.initial()
    assert planner.next_end(start, offsets_min=10) is start
    now[0] = 1000
    late = planner.next_end(start, offsets_min=10)
    assert late.offsets == {A0: 5}
    cluster.ends[A0] = 15
    assert planner.next_end(late, offsets_min=10).offsets == {A0: 15}
    cluster.ends[A0] = 16
    planner.freeze()  # Trigger.AvailableNow must end: it reads the existing records
    assert planner.next_end(late, offsets_min=100).offsets == {A0: 16}


def test_a_frozen_target_is_reached_and_not_passed() -> None:
    """Trigger.AvailableNow on a topic that is being written to ends all the same."""
    cluster = FakeCluster({A0: 25})
    planner = stream(cluster, startingOffsets="earliest")
    planner.freeze()
    cluster.ends.update({A0: 1000, A1: 1000})
    position, sizes = planner.initial(), []
    position = Position(position.topic_ids, {A0: 0}, is_initial=True)
    while (end := planner.next_end(position, offsets_max=10)) != position:
        sizes.append(sum(task.size for task in planner.tasks(position, end)))
        position = end
    assert sizes == [10, 10, 5]


def test_a_query_is_the_group_that_its_first_task_says() -> None:
    """The driver's process does not know the query's id. It learns it once, and leaves no temporary group."""
    cluster = FakeCluster({A0: 100})
    group = QueryGroup(options())
    introduction = group.introduction
    assert introduction is not None
    group.finished(cluster, {A0: 10})  # the query's id is still unknown
    assert cluster.groups == {}
    cluster.commit(introduction, {A0: 0}, text="the-id")
    group.finished(cluster, {A0: 20})
    assert cluster.groups == {"spark-the-id": {A0: (20, "")}}
    assert group.introduction is None


def test_a_query_removes_the_introductions_that_its_earlier_runs_left() -> None:
    """A run that is killed before its second batch leaves one. Those of other queries are still needed."""
    cluster = FakeCluster({A0: 100})
    group = QueryGroup(options())
    assert group.introduction is not None
    runs = {group.introduction: "mine", "spark-introduction-1": "mine", "spark-introduction-2": "another"}
    for name, query_id in runs.items():
        cluster.commit(name, {A0: 0}, text=query_id)
    group.finished(cluster, {A0: 10})
    assert sorted(cluster.groups) == ["spark-introduction-2", "spark-mine"]


def test_a_named_group_is_used_as_it_is() -> None:
    """kafka.group.id needs no introduction."""
    cluster = FakeCluster({A0: 100})
    group = QueryGroup(options(**{"kafka.group.id": "mine"}))
    assert group.introduction is None
    group.finished(cluster, {A0: 20})
    assert cluster.groups == {"mine": {A0: (20, "")}}


def test_a_coordinator_that_is_away_costs_the_lag_and_not_the_query(caplog: pytest.LogCaptureFixture) -> None:
    """Said once, and committed again as soon as it is back."""
    cluster = FakeCluster({A0: 100})
    group = QueryGroup(options(**{"kafka.group.id": "mine"}))
    cluster.is_away = True
    group.finished(cluster, {A0: 20})
    group.finished(cluster, {A0: 30})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    cluster.is_away = False
    group.finished(cluster, {A0: 30})
    assert cluster.groups == {"mine": {A0: (30, "")}}


def test_earliest_and_latest_are_kafkas_numbers() -> None:
    """They go onto the wire as they are."""
    assert (LATEST, EARLIEST) == (-1, -2)
