"""Produce: what a request costs while it waits for its commit, and a topic's rules for batches."""

from __future__ import annotations

import pytest

from chronik.broker.connection import ServerConnection
from chronik.broker.dispatch import Answer
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
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

        def spied(frame: memoryview, connection: ServerConnection) -> Answer:
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


def test_a_topics_rules_change_with_the_next_batch() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create()
        name = produce_request(batch(b"x")).topic_data[0].name

        async def produced(data: bytes) -> ErrorCode:
            done = await world.client.ask(produce_request(data), ProduceResponse, 9)
            return ErrorCode.of(done.responses[0].partition_responses[0].error_code)

        async def set_to(key: str, value: str) -> None:
            config = AlterableConfig(name=key, config_operation=0, value=value)
            resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name, configs=[config])
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            done = await world.client.ask(request, IncrementalAlterConfigsResponse, 1)
            assert not done.responses[0].error_code

        large = batch(b"x" * 300)
        assert await produced(large) is ErrorCode.NONE
        await set_to("max.message.bytes", "200")
        assert await produced(large) is ErrorCode.MESSAGE_TOO_LARGE
        await set_to("max.message.bytes", "2000")
        assert await produced(large) is ErrorCode.NONE
        await set_to("cleanup.policy", "compact")
        assert await produced(large) is ErrorCode.INVALID_RECORD, "it has no key"

    run(story())
