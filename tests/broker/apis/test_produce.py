"""Produce: what a request costs while it waits for its commit."""

from __future__ import annotations

import pytest

from chronik.broker.connection import Connection
from chronik.broker.dispatch import Answer
from chronik.wire.messages.produce import PartitionProduceData, ProduceResponse
from tests.broker.hostile import World, batch, produce_request, run


@pytest.mark.parametrize("partition_count", [1, 2])
@pytest.mark.parametrize("version", [3, 9, 12])
def test_records_that_are_in_the_log_are_not_kept_in_memory_as_well(
    version: int, partition_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers have many requests in flight, of a megabyte each. Their memory is taken again for the next ones, which
    then need none from the kernel."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=partition_count)
        frames: list[bytearray] = []
        answer = world.node.dispatcher.answer

        def spied(frame: memoryview, connection: Connection) -> Answer:
            assert isinstance(frame.obj, bytearray)
            frames.append(frame.obj)
            return answer(frame, connection)

        monkeypatch.setattr(world.node.dispatcher, "answer", spied)
        request = produce_request(batch(b"value" * 1000))
        request.topic_data[0].partition_data += [
            PartitionProduceData(index=index, records=batch(b"other")) for index in range(1, partition_count)
        ]
        answered = world.client.start(request, version)
        assert not answered.done()
        frames[0].append(0)  # BufferError: somebody still looks at it
        await answered
        done = await world.client.ask(produce_request(batch(b"next")), ProduceResponse, version)
        assert done.responses[0].partition_responses[0].base_offset == 1

    run(story())
