"""Committed offsets: written, read and deleted, by members and without any."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.oracle.asking import create_topic, find_coordinator
from tests.oracle.comparison import Pair, Server
from tests.oracle.test_compat_groups import (
    JOIN_SETUP,
    SYNC_SETUP,
    enter,
    leave,
    member,
    sync,
)

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

ANY_ORDER = ("topics", "partitions")  # Kafka lists refused items first, and the others in the order of its hash table
VERSION_TOPIC_IDS, VERSION_MANY_GROUPS = 10, 8
Offsets = dict[int, tuple[int, int, str | None]]  # partition -> offset, leader epoch, metadata


def commit(
    version: int,
    group: str,
    topics: dict[str, Offsets],
    *,
    who: str = "",
    generation: int = -1,
    instance: str | None = None,
) -> Callable[[Server], OffsetCommitRequest]:
    def request(server: Server) -> OffsetCommitRequest:
        by_id = version >= VERSION_TOPIC_IDS
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member(server, who),
            group_instance_id=instance,
            topics=[
                OffsetCommitRequestTopic(
                    name="" if by_id else name,
                    topic_id=server.topic_ids.get(name, b"\x0a" * 16) if by_id else bytes(16),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=epoch,
                            committed_metadata=text,
                        )
                        for index, (offset, epoch, text) in offsets.items()
                    ],
                )
                for name, offsets in topics.items()
            ],
        )

    return request


def committed(
    version: int, group: str, topics: dict[str, list[int]] | None, *, stable: bool = False, who: str | None = None
) -> Callable[[Server], OffsetFetchRequest]:
    def request(server: Server) -> OffsetFetchRequest:
        if version < VERSION_MANY_GROUPS:
            old = [OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in (topics or {}).items()]
            return OffsetFetchRequest(group_id=group, topics=None if topics is None else old, require_stable=stable)
        by_id = version >= VERSION_TOPIC_IDS
        new = [
            OffsetFetchRequestTopics(
                name="" if by_id else name,
                topic_id=server.topic_ids.get(name, b"\x0a" * 16) if by_id else bytes(16),
                partition_indexes=partitions,
            )
            for name, partitions in (topics or {}).items()
        ]
        asked = OffsetFetchRequestGroup(
            group_id=group,
            topics=None if topics is None else new,
            member_id=None if who is None else member(server, who),
        )
        return OffsetFetchRequest(groups=[asked], require_stable=stable)

    return request


def test_commits_without_members(pair: Pair) -> None:
    """A consumer that assigns partitions itself commits under a group's name alone."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 3)
    for version in pair.versions(OffsetCommitRequest, first=1):
        group = pair.name(f"g{version}")
        pair.ask(commit(version, group, {topic: {0: (5, 0, "note"), 2: (7, -1, "")}}), version, unordered=ANY_ORDER)
        pair.ask(commit(version, group, {topic: {0: (6, 1, None), 9: (1, -1, "")}}), version, unordered=ANY_ORDER)
        pair.ask(commit(version, group, {pair.name("unknown"): {0: (1, -1, "")}}), version)
        pair.ask(commit(version, group, {topic: {1: (-1, -1, "")}}), version)
        pair.ask(commit(version, group, {topic: {1: (8, -1, "x" * 5000)}}), version)
        pair.ask(commit(version, group, {topic: {1: (9, -1, "x" * 4096)}}), version)
        pair.ask(commit(version, group, {}), version)
        pair.ask(commit(version, group, {topic: {0: (1, -1, "")}}, who="stranger", generation=3), version)
        pair.ask(commit(version, group, {topic: {0: (1, -1, "")}}, generation=1), version)
        pair.ask(commit(version, group, {topic: {0: (1, -1, "")}}, who="stranger"), version)
        pair.ask(commit(version, "", {topic: {0: (1, -1, "")}}), version)
        read = min(version, 9)
        pair.ask(committed(read, group, {topic: [0, 1, 2]}), read)


def test_offsets_of_the_first_version(pair: Pair) -> None:
    """v0 kept offsets in ZooKeeper. Kafka without it has nowhere to put them; here they go where all others go."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 1)
    for version in pair.versions(OffsetCommitRequest, last=0):
        pair.ask(
            commit(version, pair.name("g"), {topic: {0: (5, -1, "note")}}), version, differs="offsets-in-zookeeper"
        )
    for version in pair.versions(OffsetFetchRequest, last=0):
        pair.ask(committed(version, pair.name("g"), {topic: [0]}), version, differs="offsets-in-zookeeper")


def test_commits_of_members(pair: Pair) -> None:
    """A member commits in its generation, and in no other."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 3)
    for version in pair.versions(OffsetCommitRequest, first=1):
        group = pair.name(f"g{version}")
        enter(pair, group, "a", JOIN_SETUP)
        good = {topic: {0: (5, -1, "")}}
        pair.case = "before the assignment"
        pair.ask(commit(version, group, good, who="a", generation=1), version)
        pair.do(sync(group, "a", 1, {"a": b"all"}), SYNC_SETUP)
        for generation in (1, 0, 2, -1):
            pair.case = f"generation {generation}"
            pair.ask(commit(version, group, good, who="a", generation=generation), version)
        pair.case = "strangers"
        pair.ask(commit(version, group, good, who="stranger", generation=1), version)
        pair.ask(commit(version, group, good), version)
        if version >= 7:
            pair.ask(commit(version, group, good, who="a", generation=1, instance="one"), version)
        pair.do(leave(group, 3, ("a", None)), 3)
        pair.ask(commit(version, group, good, who="a", generation=1), version)


def test_reading_commits(pair: Pair) -> None:
    """Committed offsets, missing ones, and all of them; of existing and unknown groups."""
    find_coordinator(pair)
    topic, other = create_topic(pair, pair.name("t"), 3), create_topic(pair, pair.name("u"), 1)
    group = pair.name("g")
    pair.do(commit(8, group, {topic: {0: (5, 2, "note"), 1: (7, -1, None)}, other: {0: (1, -1, "")}}), 8)
    for version in pair.versions(OffsetFetchRequest, first=1):
        for stable in (False, True) if version >= 7 else (False,):
            pair.ask(committed(version, group, {topic: [0, 1, 2, 9], other: [0]}, stable=stable), version)
            pair.ask(committed(version, group, {other: [0, 0]}, stable=stable), version)
        pair.ask(committed(version, group, {pair.name("unknown"): [0]}), version)
        pair.ask(committed(version, group, {}), version)
        pair.ask(committed(version, pair.name("nobody"), {topic: [0]}), version)
        pair.ask(committed(version, "", {topic: [0]}), version)
        if version >= 2:
            pair.ask(committed(version, group, None), version, unordered=ANY_ORDER)
            pair.ask(committed(version, pair.name("nobody"), None), version)
        if version >= 9:
            pair.ask(committed(version, group, {topic: [0]}, who="stranger"), version)
            pair.ask(committed(version, pair.name("nobody"), {topic: [0]}, who="stranger"), version)
    for version in pair.versions(OffsetFetchRequest, first=VERSION_MANY_GROUPS, last=9):
        one, two = (
            OffsetFetchRequestGroup(group_id=each, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])])
            for each in (group, pair.name("nobody"))
        )
        pair.ask(OffsetFetchRequest(groups=[one, two]), version, unordered=("groups",))
        pair.ask(OffsetFetchRequest(groups=[]), version)


def test_deleting_commits(pair: Pair) -> None:
    """Offsets may go unless the group reads the topic."""
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 3)
    group = pair.name("g")
    pair.do(commit(8, group, {topic: {0: (5, 2, "note"), 1: (7, -1, None)}}), 8)

    def delete(group: str, topics: dict[str, list[int]]) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions],
                )
                for name, partitions in topics.items()
            ],
        )

    for version in pair.versions(OffsetDeleteRequest):
        for topics in ({topic: [0, 2, 9]}, {topic: [0]}, {pair.name("unknown"): [0]}, {}):
            pair.case = str(topics)
            pair.ask(delete(group, topics), version, unordered=ANY_ORDER)
        pair.ask(delete(pair.name("nobody"), {topic: [0]}), version)
        pair.ask(delete("", {topic: [0]}), version)
        pair.ask(committed(8, group, {topic: [0, 1]}), 8)
        enter(pair, group, "a", JOIN_SETUP)
        pair.do(sync(group, "a", 1, {"a": b"all"}), SYNC_SETUP)
        pair.ask(delete(group, {topic: [1]}), version)
