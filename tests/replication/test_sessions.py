"""Followers' sessions: a request costs as much as has changed, and nothing is opened, counted or sent twice without
need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chronik.replication.credentials import TAG, sign
from chronik.replication.isr_changes import IsrChanges
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from tests.raft.virtual_time import run
from tests.replication.model import KEY, TOPIC_ID
from tests.replication.world import LAG_MS_MAX, Node, World


def by(work: Callable[[World, Node], Awaitable[None]]) -> None:
    """Runs `work` with a cluster whose followers are cut off from the leader: the test speaks in their place."""

    async def story() -> None:
        world = World(0)
        await world.begin()
        leader = world.nodes[world.controller.partition.leader]
        for node_id in world.node_ids:
            if node_id != leader.node_id:
                world.wires.separate(node_id, leader.node_id)
        leader.replicas.sessions.end()
        await work(world, leader)

    run(story)


def asking(
    world: World,
    *,
    session: tuple[int, int] = (0, 0),
    at: int | None = None,
    last_epoch: int = -1,
    epoch: int | None = None,
    wait_ms: int = 500,
    broker_epoch: int | None = None,
) -> FetchRequest:
    """What broker 2 would ask; `at` None names nothing."""
    state = world.controller.partition
    broker_id = next(each for each in world.node_ids if each != state.leader)
    named = FetchPartition(
        partition=0,
        current_leader_epoch=state.leader_epoch if epoch is None else epoch,
        fetch_offset=at or 0,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
        high_watermark=0,
    )
    broker = world.controller.image.brokers[broker_id]
    current = broker.epoch
    request = FetchRequest(
        replica_state=ReplicaState(
            replica_id=broker_id, replica_epoch=current if broker_epoch is None else broker_epoch
        ),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[] if at is None else [FetchTopic(topic="", topic_id=TOPIC_ID, partitions=[named])],
        forgotten_topics_data=[],
        rack_id="",
    )
    sign(request, broker.incarnation_id)
    return request


async def fetch(leader: Node, request: FetchRequest) -> FetchResponse:
    answer = leader.replicas.sessions.fetch(request)
    return await answer if isinstance(answer, asyncio.Future) else answer


def test_an_empty_partition_is_followed_without_being_opened() -> None:
    """Ten thousand idle topics only cost their entries in a session."""

    async def work(world: World, leader: Node) -> None:
        response = await fetch(leader, asking(world, at=0, wait_ms=100))
        assert response.responses == []
        assert list(leader.replicas.all()) == []

    by(work)


def test_a_waiting_fetch_is_answered_by_the_next_append_and_by_nothing_twice() -> None:
    """Records are not sent again before the follower has reported its position."""

    async def work(world: World, leader: Node) -> None:
        waiting = leader.replicas.sessions.fetch(asking(world, at=0))
        assert isinstance(waiting, asyncio.Future)
        world.produce(leader)
        first = await waiting
        answer = first.responses[0].partitions[0]
        assert answer.records
        again = await fetch(leader, asking(world, session=(first.session_id, 1), wait_ms=100))
        assert again.responses == []
        named = await fetch(leader, asking(world, session=(first.session_id, 2), at=0, wait_ms=100))
        assert named.responses[0].partitions[0].records

    by(work)


def test_a_follower_with_something_to_say_ends_its_own_wait() -> None:
    """A partition that was added need not wait half a second for the fetch before it."""

    async def work(world: World, leader: Node) -> None:
        first = await fetch(leader, asking(world, at=0, wait_ms=10))
        waiting = leader.replicas.sessions.fetch(asking(world, session=(first.session_id, 1), wait_ms=30_000))
        assert isinstance(waiting, asyncio.Future)
        assert not waiting.done()
        await fetch(leader, asking(world, session=(first.session_id, 2), at=0, wait_ms=10))
        assert (await waiting).responses == []

    by(work)


def test_a_history_that_parts_is_told_and_does_not_count() -> None:
    """An offset of another history is no durable end of this one."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        replica = leader.replica
        assert replica is not None
        epoch = replica.leader_epoch
        ahead = await fetch(leader, asking(world, at=replica.log.end_offset + 5, last_epoch=epoch))
        told = ahead.responses[0].partitions[0].diverging_epoch
        assert (told.epoch, told.end_offset) == (epoch, replica.log.end_offset)
        (progress,) = replica.followers.values()
        assert progress.counted_epoch != epoch

    by(work)


def test_a_last_epoch_that_nobody_led_is_told_to_part() -> None:
    """A wrong bit in a batch's leader epoch, which no checksum covers: the follower cuts the batch and fetches it."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        replica = leader.replica
        assert replica is not None
        epoch = replica.leader_epoch
        rotten = await fetch(leader, asking(world, at=replica.log.end_offset, last_epoch=epoch + 4))
        told = rotten.responses[0].partitions[0].diverging_epoch
        assert (told.epoch, told.end_offset) == (epoch, replica.log.end_offset)

    by(work)


def test_epochs_are_looked_at() -> None:
    """An older epoch gets an error at once. For a newer one, the fetch waits for the next image. A former process is
    refused."""

    async def work(world: World, leader: Node) -> None:
        behind = await fetch(leader, asking(world, at=0, epoch=world.controller.partition.leader_epoch - 1))
        assert behind.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        ahead = await fetch(leader, asking(world, at=0, epoch=world.controller.partition.leader_epoch + 1, wait_ms=50))
        assert ahead.responses == []
        stale = await fetch(leader, asking(world, at=0, broker_epoch=0))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    by(work)


def test_a_fetch_in_a_brokers_name_counts_only_if_that_broker_sent_it() -> None:
    """Any client may send a Fetch. A forged one must neither read uncommitted records nor advance the high
    watermark."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        replica = leader.replica
        assert replica is not None
        committed = replica.high_watermark
        genuine = asking(world, at=replica.log.end_offset)
        epoch = genuine.replica_state.replica_epoch
        (shown,) = genuine.unknown_tags
        forged = [
            asking(world, at=replica.log.end_offset, broker_epoch=1 << 60),
            asking(world, at=replica.log.end_offset, broker_epoch=epoch + 1),
            asking(world, at=replica.log.end_offset, broker_epoch=-1),
            *(asking(world, at=replica.log.end_offset) for _ in range(4)),
        ]
        forged[3].unknown_tags = ()  # type: ignore[misc]
        sign(forged[4], bytes(16))
        sign(forged[5], shown[1][:15])
        forged[6].unknown_tags = ((TAG + 1, shown[1]),)  # type: ignore[misc]
        for request in forged:
            answer = await fetch(leader, request)
            assert (answer.error_code, answer.responses) == (ErrorCode.STALE_BROKER_EPOCH, [])
        nobody = asking(world, at=replica.log.end_offset)
        nobody.replica_state = ReplicaState(replica_id=99, replica_epoch=epoch)
        assert (await fetch(leader, nobody)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert replica.high_watermark == committed
        assert not replica.followers
        assert (await fetch(leader, genuine)).error_code == 0

    by(work)


def test_a_request_that_does_not_fit_its_session_starts_anew() -> None:
    """Neither side guesses the state of the other."""

    async def work(world: World, leader: Node) -> None:
        unknown = await fetch(leader, asking(world, session=(77, 1)))
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        first = await fetch(leader, asking(world, at=0, wait_ms=10))
        skipped = await fetch(leader, asking(world, session=(first.session_id, 5)))
        assert skipped.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    by(work)


def test_a_follower_that_says_nothing_new_still_hears_what_is_committed() -> None:
    """Within milliseconds, so that consumers may read from it."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        replica = leader.replica
        assert replica is not None
        end, epoch = replica.log.end_offset, replica.leader_epoch
        await asyncio.sleep(0.1)
        first = await fetch(leader, asking(world, at=end, last_epoch=epoch, wait_ms=10))
        waiting = leader.replicas.sessions.fetch(asking(world, session=(first.session_id, 1), wait_ms=30_000))
        assert isinstance(waiting, asyncio.Future)
        replica.change(replica.state._replace(isr=(leader.node_id,), partition_epoch=replica.state.partition_epoch + 1))
        answer = (await waiting).responses[0].partitions[0]
        assert (answer.high_watermark, answer.records) == (end, b"")
        assert leader.replicas.opened(KEY) is replica

    by(work)


def test_a_follower_with_many_partitions_has_time_to_name_them_in_its_next_session() -> None:
    """Its connection broke; not all of them fit into the first request. It lags when it has said nothing for too long,
    not because its leader has led for long."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        replica = leader.replica
        assert replica is not None
        end, epoch = replica.log.end_offset, replica.leader_epoch
        await asyncio.sleep(LAG_MS_MAX / 1000 * 2)
        request = asking(world, at=end, last_epoch=epoch, wait_ms=10)
        await fetch(leader, request)
        follower_id = request.replica_state.replica_id
        replica.isr_pending = None
        await fetch(leader, asking(world, wait_ms=10))
        assert follower_id not in replica.followers
        keeper = replica._keeper
        assert isinstance(keeper, IsrChanges)
        assert not keeper._lags(replica, follower_id, leader.replicas.clock.monotonic_ns())
        await asyncio.sleep(LAG_MS_MAX / 1000 + 0.1)
        assert keeper._lags(replica, follower_id, leader.replicas.clock.monotonic_ns())

    by(work)
