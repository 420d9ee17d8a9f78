"""A marker with an epoch that no coordinator ever had does not block the real coordinator's markers forever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from chronik.broker.fenced_markers import NONE_KNOWN, FencedMarkers
from chronik.broker.transaction_markers import FENCED_ATTEMPTS
from chronik.metadata.errors import NotController
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.messages.init_producer_id import InitProducerIdResponse
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from chronik.wire.peer_errors import Closed
from tests.broker.hostile import World
from tests.broker.test_hanging_transactions import begin, play, stable_offset, write_unasked

HEALED_S = FENCED_ATTEMPTS + 10
FAR = 1_000_000  # a coordinator epoch


async def send_by_hand(world: World, made: InitProducerIdResponse) -> None:
    """An operator aborts the producer's open transaction, with a coordinator epoch that is far too high."""
    marker = WritableTxnMarker(
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=FAR,
    )
    answer = await world.client.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, 1)
    assert not answer.markers[0].topics[0].partitions[0].error_code


async def commit(world: World, made: InitProducerIdResponse) -> ErrorCode:
    request = EndTxnRequest(
        transactional_id="x", producer_id=made.producer_id, producer_epoch=made.producer_epoch, committed=True
    )
    return ErrorCode.of((await world.client.ask(request, EndTxnResponse, 4)).error_code)


def test_a_transaction_completes_after_a_marker_with_a_made_up_epoch() -> None:
    """Otherwise its consumers would wait forever, and its producer could begin no other transaction."""

    async def story(world: World) -> None:
        made = await begin(world)
        await send_by_hand(world, made)
        await write_unasked(world, producer_id=made.producer_id, epoch=made.producer_epoch)
        assert await commit(world, made) is ErrorCode.NONE
        await asyncio.sleep(FENCED_ATTEMPTS / 2)
        assert stable_offset(world) == 1, "it may be a replaced coordinator that has not heard of it"
        assert await commit(world, made) is ErrorCode.CONCURRENT_TRANSACTIONS
        await asyncio.sleep(HEALED_S)
        assert stable_offset(world) == 3
        assert await commit(world, made) is ErrorCode.NONE, "a repeated request, of a transaction that is complete"

    play(story)


class Node:
    """As much of a node's services as is looked at. It leads the state partition in epoch 4."""

    def __init__(self, *, leader: int = 1, of_topic: int = 2) -> None:
        self.leader = leader
        self.of_topic = of_topic
        self.faults: list[Exception] = []
        self.told = [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=0,
                last_sequence=0,
                last_timestamp=0,
                coordinator_epoch=epoch,
                current_txn_start_offset=-1,
            )
            for producer_id, epoch in ((6, 5), (7, FAR))
        ]
        self.store = self
        self.peers = self

    @property
    def image(self) -> Node:
        return self

    async def read(self) -> Node:
        if self.faults:
            raise self.faults.pop()
        return self

    def topic_named(self, name: str) -> Any:
        leader = self.leader if name == "__transaction_state" else self.of_topic
        state = SimpleNamespace(leader=leader, leader_epoch=4)
        return SimpleNamespace(partition=lambda index: state if index == 0 else None)

    async def ask(self, node_id: int, request: DescribeProducersRequest, answer: Any) -> DescribeProducersResponse:
        assert node_id == self.of_topic
        if self.faults:
            raise self.faults.pop()
        partition = PartitionResponse(partition_index=0, error_code=0, active_producers=self.told)
        return DescribeProducersResponse(
            throttle_time_ms=0, topics=[TopicResponse(name=request.topics[0].name, partitions=[partition])]
        )


def epoch_at(node: Node, *, producer_id: int = 7, state_partition: int = 0, coordinator_epoch: int = 4) -> int:
    fenced = FencedMarkers(1, lambda: node)  # type: ignore[arg-type,return-value]
    return asyncio.run(fenced.epoch_at(("t", 0), producer_id, state_partition, coordinator_epoch))


def test_the_leader_of_the_partition_tells_the_epoch() -> None:
    assert epoch_at(Node()) == FAR


@pytest.mark.parametrize(
    ("node", "asked"),
    [
        (Node(leader=3), {}),
        (Node(), {"coordinator_epoch": 3}),
        (Node(), {"state_partition": 1}),
        (Node(), {"producer_id": 8}),
    ],
)
def test_a_coordinator_that_was_replaced_stays_fenced(node: Node, asked: dict[str, int]) -> None:
    """Its marker may belong to a transaction that the new coordinator has ended, and end the next one."""
    assert epoch_at(node, **asked) == NONE_KNOWN


@pytest.mark.parametrize("fault", [NotController(None), Closed("broker 2")])
def test_what_cannot_be_found_out_is_asked_again_later(fault: Exception) -> None:
    node = Node()
    node.faults.append(fault)
    assert epoch_at(node) == NONE_KNOWN
    assert epoch_at(node) == FAR
