"""Every combination of replica, topic rules, batch, acks and version of Produce, with the answer that a node gives.

`answers` sends each request to a node in memory. It sends each batch alone and together with a batch for another
partition, because requests for one partition have a shorter way, and fails if the two answers differ.

After a change on purpose:

    tools/python -m tests.broker.apis.produce_grid > tests/broker/apis/produce_answers.txt
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple

from chronik.replication.replica import Replica
from chronik.storage.errors import CorruptSegment
from chronik.wire import legacy_batches
from chronik.wire.batches import CONTROL, CRC_COVERS_FROM, LOG_APPEND_TIME, build
from chronik.wire.checksums import crc32c
from chronik.wire.compiler import decode, encode
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.headers import response_header_version
from chronik.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chronik.wire.records import Record
from tests.broker.apis.test_taking_apart import NotedLane
from tests.broker.harness import NOW_MS, Client, Closed
from tests.broker.hostile import World

VERSIONS = (2, 6, 9, 13)
ACKS = (-1, 1, 0, 2)
EVERY_VERSION = f"v{VERSIONS[0]}-{VERSIONS[-1]} {{}}"
DAY_MS = 86_400_000
LARGE = bytes(70_000)  # too many records may be in it to look at them on the event loop


def with_crc(data: bytearray) -> bytes:
    data[17:21] = crc32c(memoryview(data)[CRC_COVERS_FROM:]).to_bytes(4, "big")
    return bytes(data)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return with_crc(bytearray(data[:at] + value + data[at + len(value) :]))


def one(
    codec: Codec = Codec.NONE,
    *,
    key: bytes | None = b"k",
    time_ms: int = NOW_MS,
    value: bytes = b"v",
    producer_id: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    return build(
        [Record(0, time_ms, key, value, ()), Record(1, time_ms, key, value, ())],
        codec,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def old(magic: int, codec: Codec = Codec.NONE, *, key: bytes | None = b"k", value: bytes = b"v") -> bytes:
    return bytes(legacy_batches.build([Record(0, NOW_MS, key, value, ())], magic, codec))


GOOD = one()
FUTURE_MS, PAST_MS = NOW_MS + 2 * DAY_MS, NOW_MS - 2 * DAY_MS
# What is sent; with a producer id it is sent twice, or behind a gap of sequence numbers.
BATCHES: dict[str, bytes | None] = {
    "good": GOOD,
    "good, gzip": one(Codec.GZIP),
    "good, zstd": one(Codec.ZSTD),
    "good, large": one(value=LARGE),
    "without a key": one(key=None),
    "without a key, gzip": one(Codec.GZIP, key=None),
    "in the future": one(time_ms=FUTURE_MS),
    "in the future, gzip": one(Codec.GZIP, time_ms=FUTURE_MS),
    "in the past": one(time_ms=PAST_MS),
    "in the past, large": one(time_ms=PAST_MS, value=LARGE),
    "above max.message.bytes": one(value=bytes(600_000)),
    "wrong CRC": GOOD[:-1] + b"x",
    "wrong CRC in the future": one(time_ms=FUTURE_MS)[:-1] + b"x",
    "codec 5": changed(GOOD, 21, b"\0\5"),
    "gzip of rubbish": changed(GOOD, 21, b"\0\1"),
    "control": changed(GOOD, 21, CONTROL.to_bytes(2, "big")),
    "LogAppendTime": changed(GOOD, 21, LOG_APPEND_TIME.to_bytes(2, "big")),
    "wrong count": changed(GOOD, 57, b"\0\0\0\7"),
    "base offset 1": changed(GOOD, 0, bytes(7) + b"\1"),
    "magic 3": changed(GOOD, 16, b"\3"),
    "two batches": GOOD + GOOD,
    "cut": GOOD[:-1],
    "ten bytes": GOOD[:10],
    "empty": b"",
    "null": None,
    "magic 0": old(0),
    "magic 1": old(1),
    "magic 1 without a key": old(1, key=None),
    "magic 1, gzip": old(1, Codec.GZIP),
    "magic 1, gzip, without a key": old(1, Codec.GZIP, key=None),
    "magic 1, large": old(1, value=LARGE),
    "magic 1, wrong CRC": old(1)[:-1] + b"x",
    "magic 1, cut": old(1)[:-1],
    "transactional": one(producer_id=5, sequence=0, is_transactional=True),
    "transactional without a key": one(key=None, producer_id=5, sequence=0, is_transactional=True),
    "transactional without a key, gzip": one(Codec.GZIP, key=None, producer_id=5, sequence=0, is_transactional=True),
    "transactional, in the future": one(time_ms=FUTURE_MS, producer_id=5, sequence=0, is_transactional=True),
    "transactional, gzip of rubbish": changed(one(producer_id=5, sequence=0, is_transactional=True), 21, b"\0\x11"),
    "repeated": one(producer_id=7, sequence=0),
    "repeated, gzip": one(Codec.GZIP, producer_id=8, sequence=0),
    "behind a gap": one(producer_id=7, sequence=9),
    "behind a gap, without a key": one(key=None, producer_id=7, sequence=9),
    "behind a gap, without a key, gzip": one(Codec.GZIP, key=None, producer_id=7, sequence=9),
    "behind a gap, in the future": one(time_ms=FUTURE_MS, producer_id=7, sequence=9),
}
RULES: dict[str, dict[str, str]] = {
    "none": {},
    "max.message.bytes": {"max_message_bytes": "100"},
    "segment.bytes": {"segment_bytes": "1048576", "max_message_bytes": "2000000"},
    "compact": {"cleanup_policy": "compact"},
    "LogAppendTime": {"message_timestamp_type": "LogAppendTime"},
    "before.max": {"message_timestamp_before_max_ms": "1000"},
    "gzip": {"compression_type": "gzip"},
    "uncompressed": {"compression_type": "uncompressed", "max_message_bytes": "200"},
    "gzip, compact": {"compression_type": "gzip", "cleanup_policy": "compact"},
}
SEGMENT_BATCH = one(value=bytes(600_000))  # two records: above 1 MiB


def leads(replica: Replica) -> None:
    pass


def follows(replica: Replica) -> None:
    replica.state = replica.state._replace(leader=2)


def lacks_replicas(replica: Replica) -> None:
    replica.state = replica.state._replace(replicas=(1, 2, 3), isr=(1,))


def lacks_a_minimum(replica: Replica) -> None:
    lacks_replicas(replica)
    replica.settings = replace(replica.settings, min_insync_replicas=2)


def keeps_eligible(replica: Replica) -> None:
    replica.state = replica.state._replace(replicas=(1, 2, 3), isr=(1,), elr=(2,))


def is_gone(replica: Replica) -> None:
    replica.is_gone = True


def is_damaged(replica: Replica) -> None:
    replica.log.damage = CorruptSegment("/data/a", 0, 0, "damaged by the test")


STATES: dict[str, tuple[Callable[[Replica], None], tuple[str, ...]]] = {
    "leads": (leads, tuple(RULES)),
    "leads with fewer in sync": (lacks_replicas, ("none", "compact")),
    "leads below the minimum": (lacks_a_minimum, ("none", "compact")),
    "leads with eligible replicas": (keeps_eligible, ("none",)),
    "leads a damaged log": (is_damaged, ("none", "compact", "gzip")),
    "follows": (follows, ("none", "compact")),
    "is gone": (is_gone, ("none",)),
    "has no such partition": (leads, ("none",)),
}


class Case(NamedTuple):
    state: str
    rules: str
    batch: str
    acks: int
    version: int


class Told(NamedTuple):
    answer: str
    data: bytes  # of the response, and of what was appended


class Grid:
    def __init__(self, world: World) -> None:
        self.world = world
        self.lane = NotedLane(world.node.record_lane)
        dispatcher = world.node.dispatcher
        dispatcher._services = replace(dispatcher._services, record_lane=self.lane)

    async def of_topic(self, state: str, rules: str) -> AsyncIterator[tuple[Case, Told]]:
        name = f"{state}-{rules}".replace(" ", "").replace(",", "-")
        await self.world.create(name, 2, **RULES[rules])
        topic = self.world.node.store.image.topic_named(name)
        assert topic is not None
        replica = self.world.node.replicas.get(topic, 0)
        assert replica is not None
        for sequence, producer_id in enumerate((7, 8)):
            first = one(Codec.GZIP if sequence else Codec.NONE, producer_id=producer_id, sequence=0)
            for index in (0, 1):
                data = PartitionProduceData(index=index, records=first)
                await self._raw(request_of(name, topic.topic_id, [data], -1), 9)
        before = replica.state, replica.settings
        STATES[state][0](replica)
        for batch, sent in BATCHES.items():
            if batch == "above max.message.bytes" and rules == "segment.bytes":
                sent = SEGMENT_BATCH
            for acks in ACKS:
                for version in VERSIONS:
                    told = await self._ask(replica, topic.topic_id, sent, acks, version, state)
                    yield Case(state, rules, batch, acks, version), told
        replica.state, replica.settings = before
        replica.is_gone, replica.log.damage = False, None

    async def _ask(
        self, replica: Replica, topic_id: bytes, sent: bytes | None, acks: int, version: int, state: str
    ) -> Told:
        log, name = replica.log, replica.log.topic
        index = 9 if state == "has no such partition" else 0
        data = PartitionProduceData(index=index, records=sent)
        end, lane_count = log.end_offset, self.lane.count
        response = await self._raw(request_of(name, topic_id, [data], acks), version)
        added = bytes(sent or b"") and log.end_offset - end
        answer = response if isinstance(response, str) else described(parsed(response, version))
        answer += f" (+{added})" if added else ""
        answer += " on the lane" if added and self.lane.count > lane_count else ""
        raw = response.encode() if isinstance(response, str) else response
        stored = b""
        if added:
            found = log.read(end, bytes_max=1 << 25, offset_limit=log.end_offset, at_least_one=True)
            stored = b"".join(map(bytes, found.buffers))
        if acks != 1:
            await self._compare_with_two(replica, topic_id, data, acks, version, response)
        return Told(answer, raw + stored)

    async def _compare_with_two(
        self,
        replica: Replica,
        topic_id: bytes,
        data: PartitionProduceData,
        acks: int,
        version: int,
        alone: bytes | str,
    ) -> None:
        end = replica.log.end_offset
        extra = PartitionProduceData(index=1, records=GOOD)
        both = await self._raw(request_of(replica.log.topic, topic_id, [data, extra], acks), version)
        if isinstance(alone, str) or isinstance(both, str):
            assert alone == both, (alone, both)
            return
        first, second = parsed(alone, version), parsed(both, version)
        if first.base_offset >= 0 and replica.log.end_offset > end:
            second.base_offset -= end - first.base_offset
        assert encode(first, version) == encode(second, version), (first, second)

    async def _raw(self, request: ProduceRequest, version: int) -> bytes | str:
        """The response; where there is none, whether the connection was closed."""
        client = Client(self.world.node)
        answered = client.start(request, version)
        if request.acks == 0:
            client._waiting.pop()
            if client.is_closed:
                return "closed"
            answered = client.start(request_of("nothing", bytes(16), [], 1), version)
        try:
            raw = await asyncio.wait_for(answered, 60)
        except Closed:
            return "closed"
        return "no answer" if request.acks == 0 else raw[4:]


def request_of(name: str, topic_id: bytes, data: list[PartitionProduceData], acks: int) -> ProduceRequest:
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def parsed(raw: bytes, version: int) -> PartitionProduceResponse:
    at = response_header_version(ProduceResponse, version)  # the correlation id is cut off; tags take a byte
    return decode(ProduceResponse, version, memoryview(raw)[at:]).responses[0].partition_responses[0]


def described(partition: PartitionProduceResponse) -> str:
    if partition.error_code:
        return ErrorCode.of(partition.error_code).name
    return "ok" if partition.base_offset >= 0 else "ok, nothing to append"


async def answers() -> AsyncIterator[tuple[Case, Told]]:
    grid = Grid(await World.make())
    for state, (_, ruled) in STATES.items():
        for rules in ruled:
            async for each in grid.of_topic(state, rules):
                yield each


async def lines() -> list[str]:
    """One for each replica, topic and batch: the answers by acks and version, and a digest of all bytes of them.

    acks=2 is left out where every version answers INVALID_REQUIRED_ACKS. `(+2)` says how many records were appended.
    """
    found = [each async for each in answers()]
    made = []
    for (state, rules, batch), cases in groupby(found, key=lambda each: each[0][:3]):
        group = list(cases)
        by_acks: dict[str, list[str]] = {}
        for acks, several in groupby(group, key=lambda each: each[0].acks):
            spans: list[tuple[str, list[int]]] = []
            for case, told in several:
                if not spans or spans[-1][0] != told.answer:
                    spans.append((told.answer, []))
                spans[-1][1].append(case.version)
            text = ", ".join(f"v{span[0]}-{span[-1]} {answer}" for answer, span in spans)
            if acks in (-1, 0, 1) or text != EVERY_VERSION.format("INVALID_REQUIRED_ACKS"):
                by_acks.setdefault(text, []).append(str(acks))
        digest = sha256(b"".join(told.data for _, told in group)).hexdigest()[:12]
        shown = "; ".join(f"acks {','.join(acks)}: {text}" for text, acks in by_acks.items())
        made.append(f"{state} | {rules} | {batch} | {shown} | {digest}")
    return made


if __name__ == "__main__":
    from tests.broker.hostile import run

    print("\n".join(run(lines())))
