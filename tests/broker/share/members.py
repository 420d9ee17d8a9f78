"""Members of share groups, as requests: each with a connection of its own, on a node in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chronik.broker.node import Node
from chronik.metadata.image import ResourceType
from chronik.wire.batches import split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from chronik.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from chronik.wire.messages.share_fetch import AcknowledgementBatch as FetchedBatch
from chronik.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from chronik.wire.notation import ZERO_UUID
from chronik.wire.records import iterate
from tests.broker.apis.test_share_groups import joined, make_world
from tests.broker.harness import Client
from tests.broker.hostile import TOPIC, World

VERSION = 2
GROUP = "g"
Acks = Sequence[tuple[int, int, int]]  # first offset, last offset, type


async def world_with_group(configs: dict[str, str] | None = None, *, partitions: int = 1, group: str = GROUP) -> World:
    """Its group has partitions with state, and begins at the log's start."""
    world = await make_world(partitions)
    await configure(world, group, {"share.auto.offset.reset": "earliest", **(configs or {})})
    await joined(world, "keeper", group)
    return world


async def configure(world: World, group: str, configs: dict[str, str]) -> None:
    own = [AlterableConfig(name=name, config_operation=0, value=v) for name, v in configs.items()]
    resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=group, configs=own)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await world.client.ask(request, IncrementalAlterConfigsResponse, 1)
    assert not answer.responses[0].error_code, answer.responses[0].error_message


class Member:
    def __init__(self, node: Node, name: str, group: str = GROUP, topic: str = TOPIC) -> None:
        self.name, self.group, self.topic = name, group, topic
        self.client = Client(node)
        self.epoch = 0
        known = node.store.image.topic_named(topic)
        self.topic_id = ZERO_UUID if known is None else known.topic_id

    async def fetch(
        self,
        *,
        partitions: Iterable[int] = (0,),
        acks: dict[int, Acks] | None = None,
        wait_ms: int = 0,
        records_max: int = 500,
        **more: Any,
    ) -> ShareFetchResponse:
        acks = acks or {}
        asked = [
            FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    FetchedBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                    for first, last, kind in acks.get(index, ())
                ],
            )
            for index in partitions
        ]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 25,
            "max_records": records_max,
            "batch_size": 500,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "topics": [FetchTopic(topic_id=self.topic_id, partitions=asked)],
            "forgotten_topics_data": [],
        } | more
        answer = await self.client.ask(ShareFetchRequest(**values), ShareFetchResponse, VERSION)
        if not answer.error_code and values["share_session_epoch"] >= 0:
            self.epoch = values["share_session_epoch"] + 1
        return answer

    async def acknowledge(self, *acks: tuple[int, int, int], partition: int = 0, **more: Any) -> int:
        """The error of the request, or of the partition."""
        batches = [AcknowledgementBatch(first_offset=f, last_offset=la, acknowledge_types=[k]) for f, la, k in acks]
        return await self.acknowledge_all(batches, partition=partition, **more)

    async def acknowledge_all(self, batches: list[AcknowledgementBatch], *, partition: int = 0, **more: Any) -> int:
        part = AcknowledgePartition(partition_index=partition, acknowledgement_batches=batches)
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "is_renew_ack": False,
            "topics": [AcknowledgeTopic(topic_id=self.topic_id, partitions=[part] if batches else [])],
        } | more
        answer = await self.client.ask(ShareAcknowledgeRequest(**values), ShareAcknowledgeResponse, VERSION)
        if answer.error_code:
            return answer.error_code
        if values["share_session_epoch"] > 0:
            self.epoch = values["share_session_epoch"] + 1
        return answer.responses[0].partitions[0].error_code if answer.responses else ErrorCode.NONE

    async def take(self, **more: Any) -> list[tuple[int, int]]:
        """Offset and delivery count of each record that this member has got."""
        return held(await self.fetch(**more))


def partitions_of(answer: ShareFetchResponse) -> list[PartitionData]:
    assert not answer.error_code, ErrorCode(answer.error_code).name
    return [each for topic in answer.responses for each in topic.partitions]


def held(answer: ShareFetchResponse) -> list[tuple[int, int]]:
    """Acquired, and present in the records that came."""
    found = []
    for part in partitions_of(answer):
        assert not part.error_code, ErrorCode(part.error_code).name
        data = part.records if isinstance(part.records, bytes) else bytes(part.records or b"")
        offsets = {record.offset for batch in split(memoryview(data)) for record in iterate(batch, 1 << 20)}
        for each in part.acquired_records:
            for offset in range(each.first_offset, each.last_offset + 1):
                assert offset in offsets
                found.append((offset, each.delivery_count))
    return found
