"""Answers from metadata when no leader of the quorum can be reached: nothing that may be the past, no empty lists."""

from __future__ import annotations

import pytest

from chronik.metadata.errors import NotController
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_cluster import DescribeClusterRequest
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.notation import Struct
from tests.broker.hostile import Peer, World, frame, run, turns

TOPIC = "orders"
VERSION, VERSION_EMPTY_MEANS_ALL = 12, 0


async def unconfirmed() -> World:
    """A node that has a topic, and no leader that says whether that is still so."""
    world = await World.make()
    await world.create(TOPIC)

    async def nobody_answers() -> None:
        raise NotController(None)

    world.node.store.current = lambda: None  # type: ignore[method-assign]
    world.node.store.read = nobody_answers  # type: ignore[method-assign, assignment]
    return world


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), VERSION),
        (MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")]), VERSION),
        (MetadataRequest(topics=None), VERSION),
        (MetadataRequest(topics=[]), VERSION_EMPTY_MEANS_ALL),
        (DescribeClusterRequest(include_cluster_authorized_operations=False), 1),
    ],
    ids=["a topic", "a topic that does not exist yet", "all topics", "all topics, as of old", "the cluster"],
)
def test_who_asks_for_topics_or_the_cluster_is_sent_to_another_node(
    request_: Struct, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """An empty list would mean a cluster without topics: subscribers by pattern would give up all partitions. After an
    error for one topic, librdkafka asks the same node as long as it is connected. It has no other connection if this
    node led all its partitions, so an isolated node would keep its clients."""

    async def test() -> None:
        world = await unconfirmed()
        caplog.clear()
        peer = Peer(world.node)
        peer.send(frame(request_, version))
        await turns()
        assert peer.is_closed
        assert peer.frames() == []
        [line] = caplog.records
        assert line.levelname == "WARNING", "it is no fault of this node"
        assert "cannot confirm metadata: no controller is elected" in line.getMessage()
        await world.node.stop()

    run(test())


def test_who_asks_for_no_topic_learns_of_the_brokers() -> None:
    """As clients do when they begin: they need an address, and no topic yet."""

    async def test() -> None:
        world = await unconfirmed()
        peer = Peer(world.node)
        peer.send(frame(MetadataRequest(topics=[]), VERSION))
        await turns()
        answer = peer.answer(0, MetadataResponse, VERSION)
        assert (len(answer.brokers), answer.topics) == (1, [])
        await world.node.stop()

    run(test())


def test_the_quorum_is_named_with_every_address_when_nobody_leads_it() -> None:
    """An operator who investigates must query the voters directly, and needs their addresses."""

    async def test() -> None:
        world = await World.make()

        async def nobody_leads(command: object) -> None:
            raise NotController(None)

        world.node.store.submit = nobody_leads  # type: ignore[method-assign, assignment]
        peer = Peer(world.node)
        wanted = DescribeQuorumRequestTopic(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartition(partition_index=0)]
        )
        peer.send(frame(DescribeQuorumRequest(topics=[wanted]), 2))
        await turns()
        answer = peer.answer(0, DescribeQuorumResponse, 2)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.NOT_CONTROLLER,
            "no controller is elected: try again later",
        )
        [known] = answer.topics[0].partitions
        assert (known.error_code, known.leader_id) == (ErrorCode.NOT_CONTROLLER, -1)
        assert [each.replica_id for each in known.current_voters] == [world.node.node_id]
        [node] = answer.nodes
        assert node.node_id == world.node.node_id
        endpoints = world.node.store.image.brokers[node.node_id].endpoints
        assert [(each.name, each.port) for each in node.listeners] == [(each.name, each.port) for each in endpoints]
        await world.node.stop()

    run(test())
