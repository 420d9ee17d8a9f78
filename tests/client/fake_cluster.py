"""A small Kafka in memory: nodes that lead partitions, logs that check sequences, and faults on demand.

It implements only what producers and consumers can notice: batches are appended to the partition's log by its leader, a
repeated batch is answered with its first offset, one out of sequence is refused. `trouble`, when set, is asked before
and after each produce and may refuse it, or swallow the answer after the records were written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chronik.client.routing import ClusterClient
from chronik.wire import batches
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from chronik.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from chronik.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chronik.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from chronik.wire.records import Record, iterate
from tests.client.machine import Machine
from tests.client.scripted import HANG_UP, NO_ANSWER, ScriptedBroker

PORT = 9092
MAX_BYTES = 1 << 30
BEFORE, AFTER = "before", "after"
NONE = 0

# Given when (BEFORE or AFTER the append) and the partition: an error code to answer, HANG_UP, or NONE.
Trouble = Callable[[str, tuple[str, int]], Any]


@dataclass
class Partition:
    leader: int
    leader_epoch: int = 0
    start_offset: int = 0
    log: list[bytes] = field(default_factory=list)
    sequences: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # producer -> next, last first, its offset
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def end_offset(self) -> int:
        return batches.split(memoryview(self.log[-1]))[0].next_offset if self.log else 0

    def records(self) -> list[Record]:
        return [
            record
            for batch in self.log
            for view in batches.split(memoryview(batch))
            if not view.is_control
            for record in iterate(view, MAX_BYTES)
        ]

    def append(self, data: memoryview) -> tuple[int, int]:
        """(error code, base offset)."""
        view = batches.validate_produced(data, MAX_BYTES)
        if view.has_producer_id:
            expected, last, offset = self.sequences.get(view.producer_id, (0, -1, -1))
            if view.base_sequence == last:
                return NONE, offset
            if view.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            following = view.base_sequence + view.record_count
            self.sequences[view.producer_id] = (following, view.base_sequence, self.end_offset)
        base_offset = self.end_offset
        stamped = bytearray(data)
        batches.patch(stamped, 0, base_offset, self.leader_epoch)
        self.log.append(bytes(stamped))
        self.grown.set()
        self.grown = asyncio.Event()
        return NONE, base_offset


class FakeCluster:
    def __init__(self, machine: Machine, topics: dict[str, int], *, node_count: int = 1) -> None:
        self.machine = machine
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.controller_id = -1
        self.trouble: Trouble | None = None
        self.message_bytes_max = MAX_BYTES
        self.next_producer_id = 1000
        self.nodes: dict[int, ScriptedBroker] = {}
        for name, count in topics.items():
            self.add_topic(name, count, node_count)
        for node_id in range(1, node_count + 1):
            self.start(node_id)

    def add_topic(self, name: str, count: int, node_count: int = 1) -> None:
        for index in range(count):
            self.partitions[name, index] = Partition(leader=1 + index % node_count)

    def client(self, **options: Any) -> ClusterClient:
        return ClusterClient(self.machine.runtime, ",".join(f"node{node_id}" for node_id in self.nodes), **options)

    def start(self, node_id: int) -> None:
        broker = ScriptedBroker(
            {
                MetadataRequest: lambda request, version: self.metadata(request),
                ProduceRequest: lambda request, version: self.produce(node_id, request, version),
                FetchRequest: lambda request, version: self.fetch(node_id, request, version),
                ListOffsetsRequest: lambda request, version: self.list_offsets(request),
                InitProducerIdRequest: lambda request, version: self.init_producer_id(),
                FindCoordinatorRequest: lambda request, version: self.find_coordinator(request),
            }
        )
        self.nodes[node_id] = broker
        self.machine.network.listening[f"node{node_id}", PORT] = broker

    def stop(self, node_id: int) -> None:
        """Stops the node: connections are refused, and open ones are closed."""
        del self.nodes[node_id]
        del self.machine.network.listening[f"node{node_id}", PORT]
        self.machine.network.cut(f"node{node_id}", PORT)

    def move(self, topic: str, index: int, leader: int) -> None:
        partition = self.partitions[topic, index]
        partition.leader = leader
        partition.leader_epoch += 1

    def all_values(self, topic: str) -> list[bytes | None]:
        return [
            record.value
            for (name, _), partition in self.partitions.items()
            if name == topic
            for record in partition.records()
        ]

    # --- handlers

    def topic_id(self, name: str) -> bytes:
        return name.encode().ljust(16, b"\x01")[:16]

    def name_of(self, name: str, topic_id: bytes) -> str:
        return name or next((each for each, _ in self.partitions if self.topic_id(each) == topic_id), "")

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        known = sorted({name for name, _ in self.partitions})
        names = known if request.topics is None else [topic.name or "" for topic in request.topics]
        topics = [
            MetadataResponseTopic(
                error_code=0 if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                name=name,
                topic_id=self.topic_id(name),
                partitions=[
                    MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=each.leader if each.leader in self.nodes else -1,
                        leader_epoch=each.leader_epoch,
                        replica_nodes=[each.leader],
                        isr_nodes=[each.leader],
                    )
                    for (topic, index), each in self.partitions.items()
                    if topic == name
                ],
            )
            for name in names
        ]
        brokers = [MetadataResponseBroker(node_id=each, host=f"node{each}", port=PORT) for each in self.nodes]
        return MetadataResponse(brokers=brokers, cluster_id="fake", controller_id=self.controller_id, topics=topics)

    def produce(self, node_id: int, request: ProduceRequest, version: int) -> Any:
        answers = []
        is_lost = False
        for topic in request.topic_data:
            name = self.name_of(topic.name, topic.topic_id)
            told = []
            for data in topic.partition_data:
                code, offset = self._append(node_id, (name, data.index), memoryview(data.records or b""))  # type: ignore[arg-type]
                is_lost = is_lost or code is HANG_UP
                told.append(
                    PartitionProduceResponse(
                        index=data.index, error_code=NONE if code is HANG_UP else code, base_offset=offset
                    )
                )
            answers.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=told))
        if is_lost:
            return HANG_UP
        return ProduceResponse(responses=answers) if request.acks else NO_ANSWER

    def _append(self, node_id: int, at: tuple[str, int], data: memoryview) -> tuple[Any, int]:
        partition = self.partitions.get(at)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
        if partition.leader != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if self.trouble and (code := self.trouble(BEFORE, at)):
            return code, -1
        if len(data) > self.message_bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        code, offset = partition.append(data)
        if not code and self.trouble and (after := self.trouble(AFTER, at)):
            return after, -1
        return code, offset

    async def fetch(self, node_id: int, request: FetchRequest, version: int) -> FetchResponse:
        end = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            answers, size, grown = self._read(node_id, request)
            left = end - asyncio.get_running_loop().time()
            if size >= request.min_bytes or left < 1e-6:  # a timer of less would fire before time has moved
                return FetchResponse(responses=answers)
            waits = [asyncio.ensure_future(event.wait()) for event in grown]
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    def _read(
        self, node_id: int, request: FetchRequest
    ) -> tuple[list[FetchableTopicResponse], int, list[asyncio.Event]]:
        answers, size, grown = [], 0, []
        for topic in request.topics:
            name = self.name_of(topic.topic, topic.topic_id)
            told = []
            for asked in topic.partitions:
                partition = self.partitions.get((name, asked.partition))
                data = b""
                code: int = NONE
                if partition is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif partition.leader != node_id:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif not partition.start_offset <= asked.fetch_offset <= partition.end_offset:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    grown.append(partition.grown)
                    for batch in partition.log:
                        if batches.split(memoryview(batch))[0].next_offset <= asked.fetch_offset:
                            continue
                        if data and len(data) + len(batch) > asked.partition_max_bytes:
                            break
                        data += batch
                size += len(data) + (1 if code else 0)
                end_offset = partition.end_offset if partition else -1
                told.append(
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=code,
                        high_watermark=end_offset,
                        last_stable_offset=end_offset,
                        aborted_transactions=None,
                        records=data,
                    )
                )
            answers.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=told))
        return answers, size, grown

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            told = []
            for asked in topic.partitions:
                partition = self.partitions[topic.name, asked.partition_index]
                if asked.timestamp in (-1, -2):
                    found = (partition.end_offset if asked.timestamp == -1 else partition.start_offset), -1
                else:
                    found = next(
                        ((r.offset, r.timestamp) for r in partition.records() if r.timestamp >= asked.timestamp),
                        (-1, -1),
                    )
                told.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=0, offset=found[0], timestamp=found[1]
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=told))
        return ListOffsetsResponse(topics=topics)

    def init_producer_id(self) -> InitProducerIdResponse:
        self.next_producer_id += 1
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=0, producer_id=self.next_producer_id, producer_epoch=0
        )

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        node_id = min(self.nodes)
        found = [
            Coordinator(key=key, node_id=node_id, host=f"node{node_id}", port=PORT, error_code=0, error_message=None)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)


def on_cluster(work: Any, topics: dict[str, int] | None = None, *, seed: int = 0, node_count: int = 1) -> Any:
    """Runs `work(fake cluster, client)` in virtual time."""
    machine = Machine(seed)

    async def main() -> Any:
        fake = FakeCluster(machine, topics or {"t": 3}, node_count=node_count)
        async with fake.client() as cluster:
            return await work(fake, cluster)

    return machine.run(main())
