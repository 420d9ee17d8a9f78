"""Share groups and transactions: a group with share.isolation.level=read_committed never gets an aborted record."""

from __future__ import annotations

import asyncio

import pytest

from chronik.broker.share.acquisition import ACCEPT, GAP
from chronik.wire.error_codes import ErrorCode
from tests.broker.apis.test_write_txn_markers import answered, marker
from tests.broker.hostile import TOPIC, run
from tests.broker.share.members import Member, partitions_of, world_with_group
from tests.broker.transactional import replica_of, write

READ_COMMITTED = {"share.isolation.level": "read_committed"}


def test_records_of_an_aborted_transaction_are_not_delivered() -> None:
    async def test() -> None:
        world = await world_with_group(READ_COMMITTED)
        replica = replica_of(world, TOPIC)
        assert not (await world.produce(b"before")).error_code
        write(replica)
        write(replica, sequence=1)
        replica.start_commit()
        one = Member(world.node, "one")
        waiting = asyncio.ensure_future(one.take(wait_ms=60_000))
        await asyncio.sleep(1)
        assert await waiting == [(0, 1)], "the open transaction is waited for"
        await answered(world, marker((TOPIC, [0]), commits=False))
        assert not (await world.produce(b"behind")).error_code
        answer = await one.fetch(wait_ms=1000)
        told = partitions_of(answer)[0]
        ranges = [(each.first_offset, each.last_offset) for each in told.acquired_records]
        assert ranges == [(3, 4)], "the marker and what is behind it"
        assert await one.acknowledge((0, 0, ACCEPT), (3, 3, GAP), (4, 4, ACCEPT)) == ErrorCode.NONE
        assert await one.take() == []
        await world.node.stop()

    run(test())


@pytest.mark.parametrize("commits", [True, False])
def test_without_isolation_all_records_are_delivered_at_once(commits: bool) -> None:
    async def test() -> None:
        world = await world_with_group()
        replica = replica_of(world, TOPIC)
        write(replica)
        replica.start_commit()
        one = Member(world.node, "one")
        assert await one.take(wait_ms=1000) == [(0, 1)]
        await answered(world, marker((TOPIC, [0]), commits=commits))
        assert await one.acknowledge((0, 0, ACCEPT)) == ErrorCode.NONE
        await world.node.stop()

    run(test())


def test_records_of_a_committed_transaction_are_delivered_when_it_ends() -> None:
    async def test() -> None:
        world = await world_with_group(READ_COMMITTED)
        replica = replica_of(world, TOPIC)
        write(replica)
        replica.start_commit()
        one = Member(world.node, "one")
        waiting = asyncio.ensure_future(one.fetch(wait_ms=60_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await answered(world, marker((TOPIC, [0]), commits=True))
        told = partitions_of(await waiting)[0]
        assert [(each.first_offset, each.last_offset) for each in told.acquired_records] == [(0, 1)]
        await world.node.stop()

    run(test())
