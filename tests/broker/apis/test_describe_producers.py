"""DescribeProducers: any replica returns the producers that it knows, as in Kafka."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from chronik.replication.errors import NotLeader
from chronik.storage.producer_state import ProducerState
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from tests.broker.small_node import SmallNode
from tests.storage.driving import NOW_MS, batch, marker


class Follower:
    """A replica that does not lead."""

    def __init__(self) -> None:
        self.log = SimpleNamespace(producers=ProducerState())
        self.log.producers.note_batch(batch([b"v"], producer=(7, 2, 5)), 0, NOW_MS)

    def require_leader(self) -> None:
        raise NotLeader("t-0", 2)


def describe(node: SmallNode, *indexes: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(indexes))])
    return node.ask(request, DescribeProducersResponse, 0).topics[0].partitions


def test_a_follower_describes_the_producers_of_its_log() -> None:
    """kafka-transactions find-hanging asks one broker for all its replicas, most of which it does not lead."""
    node = cast(Any, SmallNode())
    node.create_topic("t")
    node.replicas = SimpleNamespace(get=lambda topic, index: Follower() if index == 0 else None)
    [found, unknown] = describe(node, 0, 1)
    assert found.error_code == 0
    [producer] = found.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 5)
    assert producer.last_timestamp == NOW_MS
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_without_a_replica_says_so() -> None:
    """It has nothing to tell; an empty list would look as if there were no producers."""
    node = cast(Any, SmallNode())
    node.create_topic("t")
    node.replicas = SimpleNamespace(get=lambda topic, index: None)
    [refused] = describe(node, 0)
    assert (refused.error_code, refused.active_producers) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])


def test_an_open_transaction_is_told_with_its_start_and_a_marker_with_its_coordinator() -> None:
    """Operators use these figures to find and abort hanging transactions."""
    follower = Follower()
    state = follower.log.producers
    node = cast(Any, SmallNode())
    node.create_topic("t")
    node.replicas = SimpleNamespace(get=lambda topic, index: follower)

    def told() -> dict[int, tuple[int, ...]]:
        [found] = describe(node, 0)
        return {
            each.producer_id: (
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in found.active_producers
        }

    assert told() == {7: (2, 5, NOW_MS, -1, -1)}
    state.note_batch(batch([b"a", b"b"], producer=(8, 4, 0), transactional=True), 1, NOW_MS + 1)
    state.note_batch(batch([b"c"], producer=(8, 4, 2), transactional=True), 3, NOW_MS + 2)
    assert told()[8] == (4, 2, NOW_MS + 2, -1, 1)
    state.note_batch(marker(8, 4, committed=False, coordinator_epoch=6), 4, NOW_MS + 3)
    assert told()[8] == (4, 2, NOW_MS + 3, 6, -1)
    state.note_batch(batch([b"d"], producer=(8, 4, 3), transactional=True), 5, NOW_MS + 4)
    assert told()[8] == (4, 3, NOW_MS + 4, 6, 5)
    state.note_batch(marker(8, 5, committed=True, coordinator_epoch=7), 6, NOW_MS + 5)
    assert told()[8] == (5, -1, NOW_MS + 5, 7, -1), "the next epoch begins without a sequence"
    follower.log.producers = ProducerState.decode(state.encode())
    assert told() == {7: (2, 5, NOW_MS, -1, -1), 8: (5, -1, NOW_MS + 5, 7, -1)}, "a restart changes nothing"
