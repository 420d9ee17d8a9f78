"""What the topics of a cluster make of a topology: numbers of tasks and partitions, missing topics, statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chronik.coordinator.groups.streams.topology import (
    Configured,
    InternalTopic,
    StatusCode,
    Topology,
    Unresolvable,
    configure,
)
from chronik.wire.messages.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


def internal(name: str, partitions: int = 0) -> TopicInfo:
    configs = [TopicConfig(key="cleanup.policy", value="compact")]
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=configs)


def part(
    name: str,
    sources: Sequence[str] = (),
    *,
    reads: Sequence[TopicInfo] = (),
    writes: Sequence[str] = (),
    state: Sequence[TopicInfo] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """`reads` and `writes` are repartition topics; `together` pairs indexes of sources and of `reads`."""
    groups = [
        CopartitionGroup(source_topics=list(own), source_topic_regex=[], repartition_source_topics=list(read))
        for own, read in together
    ]
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=list(state),
        repartition_sink_topics=list(writes),
        repartition_source_topics=list(reads),
        copartition_groups=groups,
    )


def configured(existing: Mapping[str, int], *parts: Subtopology) -> Configured:
    return configure(Topology(StreamsGroupTopologyValue(epoch=0, subtopologies=list(parts))), existing.get)


def tasks(found: Configured) -> dict[str, int]:
    return {name: each.task_count for name, each in found.parts.items()}


def missing(found: Configured) -> dict[str, int]:
    return {each.name: each.partition_count for each in found.missing}


def test_a_subtopology_has_as_many_tasks_as_its_widest_source_has_partitions() -> None:
    found = configured({"a": 2, "b": 5}, part("0", ["a", "b"]))
    assert (tasks(found), found.is_ready, found.missing) == ({"0": 5}, True, ())


def test_a_changelog_topic_has_a_partition_for_each_task() -> None:
    found = configured({"a": 3}, part("0", ["a"], state=[internal("log")]))
    assert found.missing == (InternalTopic("log", 3, 0, (("cleanup.policy", "compact"),)),)
    assert found.status is not None
    assert found.status == (StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: log")
    assert configured({"a": 3, "log": 3}, part("0", ["a"], state=[internal("log")])).is_ready


def test_a_repartition_topic_is_as_wide_as_what_its_writer_reads() -> None:
    """Through a chain of such topics, whatever the order of the subtopologies."""
    chain = [
        part("2", reads=[internal("y")]),
        part("1", reads=[internal("x")], writes=["y"]),
        part("0", ["a"], writes=["x"]),
    ]
    found = configured({"a": 4}, *chain)
    assert (tasks(found), missing(found)) == ({"0": 4, "1": 4, "2": 4}, {"x": 4, "y": 4})


def test_a_repartition_topic_keeps_the_partitions_that_the_application_names() -> None:
    found = configured({"a": 4}, part("0", ["a"], writes=["x"]), part("1", reads=[internal("x", 7)]))
    assert (tasks(found), missing(found)) == ({"0": 4, "1": 7}, {"x": 7})


def test_an_existing_repartition_topic_keeps_its_partitions_only_if_they_are_right() -> None:
    parts = part("0", ["a"], writes=["x"]), part("1", reads=[internal("x")])
    assert configured({"a": 4, "x": 4}, *parts).is_ready
    found = configured({"a": 4, "x": 2}, *parts)
    assert found.status is not None
    assert found.status.code == StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_copartitioned_topics_have_the_partitions_of_the_sources() -> None:
    joined = part("1", ["b"], reads=[internal("x")], together=[([0], [0])])
    found = configured({"a": 4, "b": 6}, part("0", ["a"], writes=["x"]), joined)
    assert missing(found) == {"x": 6}


def test_copartitioned_repartition_topics_have_those_of_the_widest() -> None:
    joined = part("2", reads=[internal("x"), internal("y")], together=[([], [0, 1])])
    found = configured({"a": 4, "b": 6}, part("0", ["a"], writes=["x"]), part("1", ["b"], writes=["y"]), joined)
    assert missing(found) == {"x": 6, "y": 6}


def test_copartitioned_repartition_topics_follow_the_one_with_a_number() -> None:
    joined = part("2", reads=[internal("x", 3), internal("y")], together=[([], [0, 1])])
    found = configured({"a": 4, "b": 6}, part("0", ["a"], writes=["x"]), part("1", ["b"], writes=["y"]), joined)
    assert missing(found) == {"x": 3, "y": 3}


@pytest.mark.parametrize(
    ("existing", "parts", "code", "detail"),
    [
        (
            {"d": 1},
            [part("0", ["c", "a", "d", "b", "e"])],
            StatusCode.MISSING_SOURCE_TOPICS,
            "Source topics a, b, c and 1 additional topics are missing.",
        ),
        (
            {"a": 2, "b": 3},
            [part("0", ["a", "b"], together=[([0, 1], [])])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{a=2, b=3}]",
        ),
        (
            {"a": 2, "b": 3},
            [part("0", ["a"], writes=["x"]), part("1", ["b"], reads=[internal("x", 5)], together=[([0], [0])])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            (
                "Number of partitions [5] of repartition topic [x] doesn't match number of partitions [3] of the "
                "source topic."
            ),
        ),
        (
            {"a": 2, "log": 3},
            [part("0", ["a"], state=[internal("log")])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic log has different number of partitions: expected 2, found 3",
        ),
    ],
)
def test_what_stands_in_the_way_is_told(
    existing: dict[str, int], parts: list[Subtopology], code: StatusCode, detail: str
) -> None:
    found = configured(existing, *parts)
    assert (found.parts, found.missing, found.status) == ({}, (), (code, detail))


@pytest.mark.parametrize(
    "parts",
    [
        [part("0", reads=[internal("x")], writes=["y"]), part("1", reads=[internal("y")], writes=["x"])],
        [part("0")],
        [part("0", ["a"]), part("1", reads=[internal("x")])],
        [part("0", ["a"], together=[([1], [])])],
        [part("0", ["a"], together=[([-1], [])])],
        [part("0", ["a"], reads=[internal("x")], together=[([0], [0])])],
    ],
)
def test_a_topology_that_contradicts_itself_is_refused(parts: list[Subtopology]) -> None:
    """Loops, and topics that nothing writes: no topics of the cluster could ever make it work."""
    with pytest.raises(Unresolvable):
        configured({"a": 1}, *parts)


def test_a_long_chain_is_computed_in_one_pass() -> None:
    """A thousand subtopologies in the worst order: each is looked at a few times, not once for every other."""
    asked = 0

    def existing(topic: str) -> int | None:
        nonlocal asked
        asked += 1
        return 2 if topic == "a" else None

    parts = [part("0000", ["a"], writes=["x0"])]
    parts += [part(f"{n:04}", reads=[internal(f"x{n - 1}")], writes=[f"x{n}"]) for n in range(1, 1_000)]
    found = configure(Topology(StreamsGroupTopologyValue(epoch=0, subtopologies=parts[::-1])), existing)
    assert set(tasks(found).values()) == {2}
    assert asked < 10_000


def test_a_topology_with_too_many_tasks_is_refused() -> None:
    parts = [part(str(number), ["a"]) for number in range(11)]
    with pytest.raises(Unresolvable, match="11000 tasks"):
        configured({"a": 1_000}, *parts)
    assert configured({"a": 1_000}, *parts[:10]).is_ready
