"""Which broker gets a request: bootstrap, leaders, coordinators, and when to look them up again."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from chronik.client.admin import offsets
from chronik.client.errors import ClientError, Closed, Refused, Unreachable
from chronik.client.leaders import ask_leaders
from chronik.client.routing import METADATA_AGE_MS_MAX, ClusterClient
from chronik.client.topology import TopicPartition
from chronik.peer.backoff import Backoff
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.metadata import MetadataRequest
from chronik.wire.offset_specs import LATEST
from tests.client.fake_cluster import PORT, FakeCluster, on_cluster
from tests.client.machine import Chance, Machine


def test_the_first_bootstrap_server_that_answers_will_do() -> None:
    """One broker that is down must not prevent a connection to the cluster."""

    async def work(fake: FakeCluster, _: Any) -> None:
        async with ClusterClient(fake.machine.runtime, "gone:1,node1:9092") as cluster:
            assert (await cluster.refresh(None)).topics.keys() == {"t"}

    on_cluster(work)


def test_when_nobody_answers_every_address_is_named() -> None:
    """The user has to see which of them was wrong."""
    machine = Machine()

    async def work() -> None:
        async with ClusterClient(machine.runtime, "a:1,b:2") as cluster:
            await cluster.to_any()

    with pytest.raises(Unreachable, match=r"a:1: Connection refused.*b:2: Connection refused"):
        machine.run(work())


def test_bootstrap_servers_that_left_are_not_needed_any_more() -> None:
    """A client that runs for months outlives the brokers it was started with."""

    async def work(fake: FakeCluster, _: Any) -> None:
        async with ClusterClient(fake.machine.runtime, "node1") as cluster:
            await cluster.refresh(None)
            fake.stop(1)
            await asyncio.sleep(0.1)
            assert (await cluster.refresh(None)).brokers.keys() == {2}

    on_cluster(work, node_count=2)


def test_a_controller_that_died_does_not_keep_changes_out() -> None:
    """Metadata names it until another is elected. Any broker forwards a change, so the next one will do."""

    async def work(fake: FakeCluster, _: Any) -> None:
        fake.controller_id = 2
        async with ClusterClient(fake.machine.runtime, "node1") as cluster:
            assert (await cluster.to_controller()).address.host == "node2"
            fake.stop(2)
            await asyncio.sleep(0.1)
            assert (await cluster.to_controller()).address.host == "node1"

    on_cluster(work, node_count=2)


def test_one_connection_is_made_however_many_ask() -> None:
    """A thousand tasks that start together must not open a thousand connections."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        await cluster.refresh(None)
        before = len(fake.machine.network.connects)
        connections = await asyncio.gather(*(cluster.to_node(1, "other") for _ in range(50)))
        assert len(set(map(id, connections))) == 1
        assert len(fake.machine.network.connects) == before + 1

    on_cluster(work)


def test_metadata_is_asked_for_once_and_again_when_it_is_old_or_wrong() -> None:
    """Every record looks up its topic; new partitions must be found all the same."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        def asked() -> int:
            return len(fake.nodes[1].asked_for(MetadataRequest))

        await cluster.topic("t")
        for _ in range(10):
            await cluster.topic("t")
        assert asked() == 1
        cluster.forget("t")
        await cluster.topic("t")
        assert asked() == 2
        await asyncio.sleep(METADATA_AGE_MS_MAX / 1000 + 1)
        assert cluster.known_topic("t") is None
        await cluster.topic("t")
        assert asked() == 3

    on_cluster(work)


def test_a_deleted_topic_is_forgotten_with_the_next_full_refresh() -> None:
    """And a refresh of one topic leaves the others as they are."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        fake.add_topic("other", 1)
        await cluster.refresh(None)
        await cluster.refresh(["t"])
        assert cluster.topology.topics.keys() == {"t", "other"}
        del fake.partitions["other", 0]
        assert (await cluster.refresh(None)).topics.keys() == {"t"}
        assert (await cluster.refresh(["other"])).errors == {"other": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    on_cluster(work)


def test_asking_for_metadata_creates_no_topic_unless_told() -> None:
    """`chronik topic describe typo` must not create a topic."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        for creates in (False, True):
            with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await cluster.topic("typo", creates=creates)
        assert [r.allow_auto_topic_creation for r in fake.nodes[1].asked_for(MetadataRequest)] == [False, True]

    on_cluster(work)


def test_what_is_retriable_is_tried_until_it_works_or_time_is_up() -> None:
    """Kafka defines which errors are temporary; others are not retried."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        attempts: list[float] = []

        async def fails(code: ErrorCode, times: int) -> str:
            attempts.append(asyncio.get_running_loop().time())
            if len(attempts) <= times:
                raise Refused(code, "it")
            return "done"

        assert await cluster.retrying(lambda: fails(ErrorCode.NOT_CONTROLLER, 4)) == "done"
        gaps = [later - earlier for earlier, later in itertools.pairwise(attempts)]
        assert gaps == sorted(gaps)  # it backs off
        attempts.clear()
        with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
            await cluster.retrying(lambda: fails(ErrorCode.TOPIC_ALREADY_EXISTS, 9))
        assert len(attempts) == 1
        attempts.clear()
        started = asyncio.get_running_loop().time()
        with pytest.raises(Refused, match="NOT_CONTROLLER"):
            await cluster.retrying(lambda: fails(ErrorCode.NOT_CONTROLLER, 10**6), timeout_ms=3_000)
        assert 2 < asyncio.get_running_loop().time() - started <= 3

    on_cluster(work)


def test_backing_off_doubles_up_to_a_second_and_varies() -> None:
    """Clients that all come back at the same moment would knock a broker over again."""
    waits = [Backoff(Chance(seed)) for seed in range(50)]
    for expected in (50, 100, 200, 400, 800, 1000, 1000):
        drawn = [backoff.next_ms() for backoff in waits]
        assert all(expected * 0.8 <= wait <= expected * 1.2 for wait in drawn)
        assert len(set(drawn)) > 5


def test_a_coordinator_is_remembered_until_it_moves() -> None:
    """Looking it up for every heartbeat would double the requests; never again would lose the group."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        where = {"node": 1}
        for broker in fake.nodes.values():
            broker.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key="g", node_id=where["node"], host="", port=PORT, error_code=0, error_message=None)
                ]
            )
            broker.handlers[ListGroupsRequest] = lambda request, version: ListGroupsResponse(error_code=0, groups=[])
            broker.classes[ListGroupsRequest.api_key] = ListGroupsRequest
            broker.versions[ListGroupsRequest.api_key] = ListGroupsRequest.versions

        def asked(node_id: int) -> int:
            return len(fake.nodes[node_id].asked_for(ListGroupsRequest))

        for _ in range(3):
            await cluster.ask_coordinator("g", ListGroupsRequest(), ListGroupsResponse)
        lookups = sum(len(node.asked_for(FindCoordinatorRequest)) for node in fake.nodes.values())
        assert (asked(1), lookups) == (3, 1)
        where["node"] = 2
        with pytest.raises(Refused):
            cluster.refuse_from_coordinator("g", ErrorCode.NOT_COORDINATOR, "it")
        await cluster.ask_coordinator("g", ListGroupsRequest(), ListGroupsResponse)
        assert asked(2) == 1

    on_cluster(work, node_count=2)


def test_a_coordinator_that_is_gone_for_good_is_looked_for_again() -> None:
    """It is unreachable, and metadata may name it for minutes: without another lookup the group would not progress
    meanwhile."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        where = {"node": 1}
        for broker in fake.nodes.values():
            broker.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key="g", node_id=where["node"], host="", port=PORT, error_code=0, error_message=None)
                ]
            )
            broker.handlers[ListGroupsRequest] = lambda request, version: ListGroupsResponse(error_code=0, groups=[])
            broker.classes[ListGroupsRequest.api_key] = ListGroupsRequest
            broker.versions[ListGroupsRequest.api_key] = ListGroupsRequest.versions
        await cluster.ask_coordinator("g", ListGroupsRequest(), ListGroupsResponse)
        fake.stop(1)
        await asyncio.sleep(1)  # the connection is known to be gone before anything is asked over it
        with pytest.raises(Unreachable):
            await cluster.ask_coordinator("g", ListGroupsRequest(), ListGroupsResponse)
        where["node"] = 2
        await cluster.ask_coordinator("g", ListGroupsRequest(), ListGroupsResponse)
        assert len(fake.nodes[2].asked_for(ListGroupsRequest)) == 1

    on_cluster(work, node_count=2)


def test_a_closed_client_says_so() -> None:
    """Otherwise it would silently open new connections that are never closed."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        await cluster.close()
        with pytest.raises(Closed):
            await cluster.refresh(None)

    on_cluster(work)


@pytest.mark.parametrize("delay_ms", range(6))
def test_giving_up_or_closing_while_connecting_leaves_no_connection(delay_ms: int) -> None:
    """At any moment: a connection without an owner stays open forever and prevents its loop from closing."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        await cluster.refresh(None)
        for end in ("cancel", "close"):
            opening = asyncio.create_task(cluster.to_node(1, end))
            await asyncio.sleep(delay_ms / 1000)
            if end == "cancel":
                opening.cancel()
            else:
                await cluster.close()
            await asyncio.gather(opening, return_exceptions=True)
        await cluster.close()
        await asyncio.sleep(1)
        assert [link for link in fake.machine.network.links if link.is_open] == []

    on_cluster(work)


def test_leaders_are_asked_side_by_side_and_looked_up_again_when_they_moved() -> None:
    """One question for a thousand partitions: one request per leader, and no partition forgotten."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        await cluster.refresh(None)
        fake.move("t", 0, leader=2)
        rounds: list[dict[int, int]] = []

        async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
            rounds.append({node_id: len(some)})
            return {
                at: node_id
                if fake.partitions[at].leader == node_id
                else Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(at))
                for at in some
            }

        wanted = [TopicPartition("t", index) for index in range(6)]
        found = await ask_leaders(cluster, [*wanted, TopicPartition("t", 99), TopicPartition("no", 0)], ask)
        assert {at: found[at] for at in wanted} == {at: fake.partitions[at].leader for at in wanted}
        for at in (TopicPartition("t", 99), TopicPartition("no", 0)):
            fault = found[at]
            assert isinstance(fault, Refused)
            assert fault.kafka_error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert rounds == [{1: 3}, {2: 3}, {2: 1}]

    on_cluster(work, {"t": 6}, node_count=2)


def test_a_leader_that_never_comes_back_is_told_per_partition() -> None:
    """Lag of nine partitions is worth showing when the tenth has no leader."""

    async def work(fake: FakeCluster, cluster: ClusterClient) -> None:
        await cluster.refresh(None)
        fake.stop(2)
        found = await offsets.look_up(cluster, {TopicPartition("t", index): LATEST for index in range(2)})
        assert isinstance(found[TopicPartition("t", 0)], offsets.OffsetAt)
        fault = found[TopicPartition("t", 1)]
        assert isinstance(fault, Refused)
        assert fault.kafka_error is ErrorCode.LEADER_NOT_AVAILABLE

    on_cluster(work, {"t": 2}, node_count=2)
