"""The response to a successful produce request for one partition, encoded without building its structs.

All such responses of one version and topic are the same bytes, except for a few consecutive numbers. The bytes around
them come from a response of the regular encoder, so the format is not described twice.
"""

from __future__ import annotations

from struct import Struct as Packing

from chronik.wire.compiler import encode
from chronik.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

TOPICS_MAX = 10_000  # cached; then all are dropped, because deleted topics are among them
# index, error_code, base_offset, log_append_time_ms, log_start_offset; older versions have fewer.
_pack = Packing(">ihqqq").pack
_NUMBERS_BYTES = [14] * 2 + [22] * 3 + [30] * 9  # by version
_MARK = -2  # a topic's name or length never has these bytes, because they are not UTF-8

_around: dict[tuple[int, str, bytes], tuple[bytes, bytes]] = {}


def encoded_reply(
    version: int, topic: TopicProduceData, index: int, base_offset: int, append_time_ms: int, start_offset: int
) -> bytes:
    around = _around.get((version, topic.name, topic.topic_id)) or _remember(version, topic)
    numbers = _pack(index, 0, base_offset, append_time_ms, start_offset)
    return numbers[: _NUMBERS_BYTES[version]].join(around)


def _remember(version: int, topic: TopicProduceData) -> tuple[bytes, bytes]:
    partition = PartitionProduceResponse(
        index=_MARK, error_code=_MARK, base_offset=_MARK, log_append_time_ms=_MARK, log_start_offset=_MARK
    )
    made = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[partition])
    marks = _pack(_MARK, _MARK, _MARK, _MARK, _MARK)[: _NUMBERS_BYTES[version]]
    before, _, behind = encode(ProduceResponse(responses=[made]), version).partition(marks)
    if len(_around) >= TOPICS_MAX:
        _around.clear()
    _around[version, topic.name, topic.topic_id] = before, behind
    return before, behind
