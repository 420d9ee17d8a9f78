"""The short way to a produce reply gives the bytes of the long way, in every version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.broker import produce_reply
from chronik.broker.produce_reply import encoded_reply
from chronik.wire.compiler import encode
from chronik.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

LONGS = st.integers(-(2**63), 2**63 - 1)


def the_long_way(version: int, topic: TopicProduceData, index: int, *numbers: int) -> bytes:
    base_offset, append_time_ms, start_offset = numbers
    partition = PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=start_offset,
    )
    made = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[partition])
    return encode(ProduceResponse(responses=[made]), version)


@given(
    version=st.integers(0, 13),
    name=st.text(max_size=20),
    topic_id=st.binary(min_size=16, max_size=16),
    index=st.integers(-(2**31), 2**31 - 1),
    numbers=st.tuples(LONGS, LONGS, LONGS),
)
def test_both_ways_write_the_same(
    version: int, name: str, topic_id: bytes, index: int, numbers: tuple[int, int, int]
) -> None:
    """A client must not be able to tell which way its reply took."""
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
    assert encoded_reply(version, topic, index, *numbers) == the_long_way(version, topic, index, *numbers)
    again = tuple(-number - 1 for number in numbers)
    assert encoded_reply(version, topic, index, *again) == the_long_way(version, topic, index, *again)


def test_topics_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics come and go for years, and clients choose their names."""
    monkeypatch.setattr(produce_reply, "TOPICS_MAX", 10)
    for number in range(100):
        topic = TopicProduceData(name=f"t{number}", topic_id=bytes(16), partition_data=[])
        assert encoded_reply(9, topic, 3, 7, -1, 0) == the_long_way(9, topic, 3, 7, -1, 0)
    assert len(produce_reply._around) <= 10
