"""A node starts on the data directory of the first release, and everything is there.

`frozen/format_1.tar.gz` is a directory that the first release left when it was killed. It was filled with 26 records of
an idempotent producer, a stop and a start in between; a compacted topic; and two offsets of the group `billing`.
"""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from chronik.metadata.formats import FORMAT_FEATURE, SECURITY_AND_TRANSACTIONS
from chronik.sim.disk import SimDisk
from chronik.wire.batches import BatchView, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from chronik.wire.messages.produce import ProduceResponse
from chronik.wire.records import Record, iterate
from tests.broker.hostile import World, produce_request, run

BYTES_MAX = 1 << 20
FROZEN = Path(__file__).with_name("frozen") / "format_1.tar.gz"


def frozen_disk() -> SimDisk:
    disk = SimDisk(1)
    with tarfile.open(FROZEN) as archive:
        for each in archive:
            path = f"/{each.name}"
            if each.isdir():
                disk.make_directory(path)
            elif (file := archive.extractfile(each)) is not None:
                disk.replace_file(path, file.read())
    return disk


def play(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = await World.make(frozen_disk())
        await story(world)
        await world.node.stop()

    run(main())


async def batches_of(world: World, topic: str, partition: int = 0) -> list[BatchView]:
    found: list[BatchView] = []
    offset = 0
    while (data := await world.fetch(offset, topic=topic, partition=partition)).high_watermark > offset:
        assert data.error_code == 0
        found += split(data.records)
        offset = found[-1].last_offset + 1
    return found


async def records_of(world: World, topic: str, partition: int = 0) -> list[Record]:
    return [each for batch in await batches_of(world, topic, partition) for each in iterate(batch, BYTES_MAX)]


def test_every_record_is_there() -> None:
    """From segments listed in the checkpoint, and from the journal of the killed process."""

    async def story(world: World) -> None:
        for index in (0, 1):
            found = await records_of(world, "orders", index)
            assert [(each.offset, each.key, each.value) for each in found] == [
                (offset, b"k%d" % number, b"order %d" % number) for offset, number in enumerate(range(index, 26, 2))
            ]
        latest = {each.key: each.value for each in await records_of(world, "latest")}
        assert latest == {b"k0": None, b"k1": b"5 of round 2", b"k2": b"6 of round 2", b"k3": b"last"}

    play(story)


def test_what_an_idempotent_producer_sends_again_is_not_written_again() -> None:
    """It was not answered by the old release, and asks the new one."""

    async def story(world: World) -> None:
        before = await batches_of(world, "orders")
        again = produce_request(bytes(8) + before[-1].data[8:], topic="orders")  # a producer counts from 0 in a batch
        answer = (await world.client.ask(again, ProduceResponse, 9)).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, before[-1].base_offset)
        assert len(await batches_of(world, "orders")) == len(before)

    play(story)


def test_a_group_goes_on_where_it_was() -> None:
    async def story(world: World) -> None:
        asked = OffsetFetchRequest(
            group_id="billing", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])]
        )
        while (answer := await world.client.ask(asked, OffsetFetchResponse, 5)).error_code:
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        offsets = {each.partition_index: each.committed_offset for each in answer.topics[0].partitions}
        assert offsets == {0: 7, 1: 3}

    play(story)


def test_the_cluster_can_go_back_until_its_first_transaction() -> None:
    """The first release serves records of aborted transactions as if they were committed."""

    async def story(world: World) -> None:
        assert FORMAT_FEATURE not in world.node.store.image.features
        asked = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["payments"])
        await world.client.ask(find, FindCoordinatorResponse, 4)
        await asyncio.sleep(1)  # its topic was created, and is loaded
        assert (await world.client.ask(asked, InitProducerIdResponse, 4)).error_code == 0
        assert world.node.store.image.features[FORMAT_FEATURE] == SECURITY_AND_TRANSACTIONS

    play(story)
