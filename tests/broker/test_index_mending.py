"""A damaged index of aborted transactions on a running node: only read_committed consumers wait for it."""

from __future__ import annotations

import pytest

from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.fetch import FetchRequest, FetchResponse
from tests.broker.apis.test_write_txn_markers import answered, marker
from tests.broker.harness import Client
from tests.broker.hostile import World, fetch_request
from tests.broker.transactional import P, play, replica_of, write

TRANSACTIONS = 200
AN_HOUR_MS = 3_600_000


async def _damaged(world: World) -> None:
    """Every transaction on partition 0 is aborted, and its index is not to be trusted."""
    replica = replica_of(world)
    for epoch in range(TRANSACTIONS):
        write(replica, epoch)
        ended = await answered(world, marker(("t", [0]), epoch=epoch + 1, commits=False, transaction_version=2))
        assert ended == {(P, "t", 0): ErrorCode.NONE}
    replica.log.aborted.distrust("the test says so")


def _committed(min_bytes: int = 1, max_wait_ms: int = AN_HOUR_MS) -> FetchRequest:
    request = fetch_request(0, topic="t", max_wait_ms=max_wait_ms)
    request.isolation_level, request.min_bytes = READ_COMMITTED, min_bytes
    return request


@pytest.mark.parametrize("min_bytes", [1, 100])
def test_a_fetch_waits_for_the_index_and_is_woken_when_it_is_ready(min_bytes: int) -> None:
    async def story(world: World, asked: object) -> None:
        await _damaged(world)
        found = (await world.client.ask(_committed(min_bytes), FetchResponse, 11)).responses[0].partitions[0]
        assert len(found.records) > 0
        assert found.aborted_transactions is not None
        assert [each.first_offset for each in found.aborted_transactions] == list(range(0, 2 * TRANSACTIONS, 2))

    play(story)


def test_meanwhile_it_gets_no_record_rather_than_an_aborted_one() -> None:
    async def story(world: World, asked: object) -> None:
        await _damaged(world)
        found = (await world.client.ask(_committed(max_wait_ms=0), FetchResponse, 11)).responses[0].partitions[0]
        assert (found.error_code, found.records, found.aborted_transactions) == (ErrorCode.NONE, b"", [])
        assert found.last_stable_offset == 2 * TRANSACTIONS

    play(story)


def test_others_are_served_meanwhile() -> None:
    """Readers of all records need no index, and get theirs between two pieces."""

    async def story(world: World, asked: object) -> None:
        await _damaged(world)
        waiting = world.client.start(_committed(), 11)
        found = await Client(world.node).ask(fetch_request(topic="t"), FetchResponse, 11)
        assert len(found.responses[0].partitions[0].records) > 0
        assert not replica_of(world).log.aborted.is_whole, "it is not done in one turn of the loop"
        await waiting

    play(story)
