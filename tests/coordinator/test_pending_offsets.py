"""Offsets in transactions, held against the rule that Kafka states: a record's place in the log decides.

The store remembers no places. It marks pending offsets as superseded instead. The model here remembers the place of
every record, and both must agree after every step, also on a coordinator that has just loaded the same log.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.open_transactions import Producer, Transaction
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY, Topic
from chronik.wire.error_codes import ErrorCode
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
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from chronik.wire.records import ControlType
from tests.coordinator.virtual import (
    FakeCaller,
    FakeClock,
    FakePartition,
    let_everything_happen,
    make_coordinator,
    run_virtually,
)

GROUPS, PARTITIONS, PRODUCERS = ("g", "h"), range(3), (7, 8, 9)
UNSTABLE = "unstable"
Place = tuple[str, int]


class Model:
    """Kafka's rule: on COMMIT, a pending offset is stored if its position in the log is after that of the stored
    one."""

    def __init__(self) -> None:
        self.stored: dict[Place, tuple[int, int]] = {}  # offset, and the place of its record in the log
        self.pending: dict[int, dict[Place, tuple[int, int]]] = {each: {} for each in PRODUCERS}

    def removed(self, place: Place) -> None:
        self.stored.pop(place, None)
        for pending in self.pending.values():
            pending.pop(place, None)

    def ended(self, producer_id: int, outcome: ControlType) -> None:
        for place, found in self.pending[producer_id].items():
            if outcome is ControlType.COMMIT and found[1] > self.stored.get(place, (0, -1))[1]:
                self.stored[place] = found
        self.pending[producer_id] = {}

    def read(self, place: Place, *, stable: bool) -> int | str:
        if stable and any(place in pending for pending in self.pending.values()):
            return UNSTABLE
        return self.stored.get(place, (-1, -1))[0]


def commit(
    coordinator: GroupCoordinator, place: Place, offset: int, producer_id: int | None = None, topic: str = "t"
) -> Any:
    partition = OffsetCommitRequestPartition(partition_index=place[1], committed_offset=offset, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id=place[0], topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    transaction = None if producer_id is None else Transaction(Producer(producer_id, 0))
    return coordinator.offset_commit(request, FakeCaller(9), transaction)


def read(coordinator: GroupCoordinator, place: Place, *, stable: bool, topic: str = "t") -> int | str:
    asked = OffsetFetchRequestGroup(
        group_id=place[0], topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[place[1]])]
    )
    answer = coordinator.offset_fetch(OffsetFetchRequest(groups=[asked], require_stable=stable), FakeCaller(9))
    assert not isinstance(answer, asyncio.Future), "everything is committed, so nothing is waited for"
    found = answer.groups[0].topics[0].partitions[0]
    if found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        return UNSTABLE
    assert found.error_code == ErrorCode.NONE
    return found.committed_offset


def delete(coordinator: GroupCoordinator, place: Place) -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=place[1])]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    coordinator.offset_delete(OffsetDeleteRequest(group_id=place[0], topics=topics), FakeCaller(0))


@pytest.mark.parametrize("seed", range(30))
def test_a_pending_offset_counts_only_if_nothing_newer_does(seed: int) -> None:
    """Otherwise a transaction that commits late would undo a later commit, and the consumer would read records twice.
    After a failover the new coordinator must come to the same result from the log alone."""
    chance = random.Random(seed)
    clock = FakeClock()

    async def story() -> None:
        model, partition, coordinator = Model(), FakePartition(), make_coordinator(clock)
        await coordinator.load(partition)
        for step in range(150):
            place = chance.choice(GROUPS), chance.choice(PARTITIONS)
            producer_id, kind, where = chance.choice(PRODUCERS), chance.random(), partition.end_offset
            if kind < 0.4:
                commit(coordinator, place, step, producer_id)
                model.pending[producer_id][place] = (step, where)
            elif kind < 0.6:
                commit(coordinator, place, step)
                model.stored[place] = (step, where)
            elif kind < 0.7:
                delete(coordinator, place)
                model.removed(place)
            elif kind < 0.95:
                outcome = chance.choice([ControlType.COMMIT, ControlType.ABORT])
                assert coordinator.end_transaction(0, Producer(producer_id, 0), outcome, 0, 0) is ErrorCode.NONE
                model.ended(producer_id, outcome)
            else:
                partition = partition.after_failover()
                coordinator = make_coordinator(clock)
                await coordinator.load(partition)
            for group in GROUPS:
                for index in PARTITIONS:
                    for stable in (False, True):
                        found = read(coordinator, (group, index), stable=stable)
                        assert found == model.read((group, index), stable=stable), (step, group, index, stable)

    run_virtually(story(), clock)


def test_a_deleted_topic_takes_its_pending_offsets_along() -> None:
    """A topic that is created again under the same name must not start at an offset of its predecessor."""
    clock = FakeClock()

    async def story() -> None:
        coordinator = make_coordinator(clock)
        await coordinator.load(FakePartition())
        commit(coordinator, ("g", 0), 5, 7)
        commit(coordinator, ("g", 0), 5, 7, topic="other")
        gone = Topic(topic_id=bytes([1] * 16), name="t", partitions=())
        coordinator.image_changed(EMPTY, Changes(topics_removed=[gone]))
        await let_everything_happen()
        assert coordinator.end_transaction(0, Producer(7, 0), ControlType.COMMIT, 0, 0) is ErrorCode.NONE
        assert read(coordinator, ("g", 0), stable=True) == -1
        assert read(coordinator, ("g", 0), stable=True, topic="other") == 5

    run_virtually(story(), clock)


def test_a_transaction_that_commits_often_keeps_one_offset_for_each_partition() -> None:
    """A producer may commit offsets many times before its transaction ends. Only the newest ones count."""
    clock = FakeClock()

    async def story() -> None:
        coordinator = make_coordinator(clock, GroupsConfig())
        await coordinator.load(FakePartition())
        for offset in range(100):
            commit(coordinator, ("g", offset % 2), offset, 7)
        (shard,) = coordinator._runtime.shards()
        assert len(list(shard.open_transactions.records())) == 2

    run_virtually(story(), clock)
