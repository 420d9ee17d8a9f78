"""Partitions without records: in-sync followers do not fetch them, and miss none of the records that arrive later."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from chronik.replication.fetcher import FetchConfig, Fetcher, Fetchers
from chronik.replication.follower import Follower
from chronik.replication.progress import Key
from chronik.replication.sessions import _invitation
from chronik.runtime.interfaces import Network
from chronik.wire.messages.fetch import FetchableTopicResponse, FetchResponse
from tests.raft.virtual_time import run
from tests.replication.model import KEY
from tests.replication.test_sessions import asking, by, fetch
from tests.replication.world import Node, World

OTHER = (KEY[0], KEY[1] + 1)


def test_the_first_record_invites_a_follower_once() -> None:
    """It waits with a fetch that names nothing; the answer names the partition, and has nothing in it."""

    async def work(world: World, leader: Node) -> None:
        first = await fetch(leader, asking(world, wait_ms=10))
        waiting = leader.replicas.sessions.fetch(asking(world, session=(first.session_id, 1)))
        assert isinstance(waiting, asyncio.Future)
        world.produce(leader)
        (topic,) = (await waiting).responses
        (invitation,) = topic.partitions
        assert (topic.topic_id, invitation.partition_index) == KEY
        assert (invitation.error_code, invitation.records) == (0, b"")
        again = await fetch(leader, asking(world, session=(first.session_id, 2), wait_ms=10))
        assert again.responses == []

    by(work)


def test_a_session_that_begins_after_the_first_record_is_invited() -> None:
    """The invitation to the one before it may have been lost with its connection."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        response = await fetch(leader, asking(world, wait_ms=10))
        assert [(topic.topic_id, topic.partitions[0].partition_index) for topic in response.responses] == [KEY]

    by(work)


def test_a_change_of_a_written_partition_invites_whoever_is_not_there() -> None:
    """A new leader already has the log and its followers' sessions, so without an invitation they would not learn of
    it."""

    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        first = await fetch(leader, asking(world, wait_ms=10))
        waiting = leader.replicas.sessions.fetch(asking(world, session=(first.session_id, 1)))
        leader.replicas.follow(leader.image, [leader.image.topics[KEY[0]]], [])
        assert isinstance(waiting, asyncio.Future)
        assert [topic.topic_id for topic in (await waiting).responses] == [KEY[0]]

    by(work)


def test_an_invitation_may_come_before_the_image_that_shows_the_partition() -> None:
    """The leader heard of the topic first, and a client was quick."""

    async def story() -> None:
        fetcher = Fetcher(
            1,
            2,
            cast(Network, None),
            FetchConfig(),
            address_of=lambda broker_id: None,
            broker_epoch=lambda: 1,
            incarnation_id=lambda: bytes(16),
        )
        followed: list[tuple[Key, int]] = []

        def make_follower(key: Key, leader_epoch: int) -> Follower:
            followed.append((key, leader_epoch))
            return Follower(key, leader_epoch, opened=lambda key: None, open_=lambda key: None)  # type: ignore[arg-type,return-value]

        running = asyncio.ensure_future(asyncio.sleep(0))
        fetchers = Fetchers(lambda leader_id: fetcher, lambda name, fetcher: running)
        fetchers.attach(make_follower)
        fetchers.follow(OTHER, 2, 0, when_invited=True)
        topic = FetchableTopicResponse(topic="", topic_id=KEY[0], partitions=[_invitation(KEY)])
        fetcher._receive(FetchResponse(session_id=1, responses=[topic]), 1)
        assert followed == []
        fetchers.follow(KEY, 2, 7, when_invited=True)
        assert followed == [(KEY, 7)]

    run(story)


def test_whoever_names_the_partition_needs_no_invitation() -> None:
    async def work(world: World, leader: Node) -> None:
        world.produce(leader)
        response = await fetch(leader, asking(world, at=0, wait_ms=10))
        (answer,) = response.responses[0].partitions
        assert answer.records

    by(work)


def test_followers_of_an_untouched_partition_stay_silent_and_take_the_first_record() -> None:
    async def story() -> None:
        world = World(5)
        await world.begin()
        await asyncio.sleep(1)
        leader = world.nodes[world.controller.partition.leader]
        assert leader.replicas.followers_of(KEY) == {}
        committed = world.produce(leader)
        assert committed is not None
        await committed
        assert set(leader.replicas.followers_of(KEY)) == set(world.node_ids) - {leader.node_id}

    run(story)


def test_a_node_that_left_the_isr_of_an_untouched_partition_comes_back_into_it() -> None:
    """No leader would ever invite it, so it must ask by itself."""

    async def story() -> None:
        world = World(7)
        await world.begin()
        away = next(each for each in world.node_ids if each != world.controller.partition.leader)
        world.crash(away)
        await world.until(lambda: away not in world.controller.partition.isr)
        await world.start(away)
        await world.until(lambda: away in world.controller.partition.isr)

    run(story)


@pytest.mark.parametrize("seed", range(20))
def test_a_leader_that_dies_before_its_invitations_arrive_leaves_nobody_waiting(seed: int) -> None:
    async def story() -> None:
        world = World(seed)
        await world.begin()
        leader = world.nodes[world.controller.partition.leader]
        world.produce(leader)
        world.crash(leader.node_id)
        await world.until(lambda: world.leader is not None)
        assert world.leader is not None
        world.produce(world.leader)
        await world.settle()
        world.model.check_end()

    run(story)
