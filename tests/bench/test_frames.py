"""Frames that are created once: our decoders, and brokers, read the intended contents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.bench import frames
from chronik.wire.batches import crc_holds, split, validate_produced
from chronik.wire.compiler import decode, decoder_of, encode
from chronik.wire.compression import Codec
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.messages.fetch import FetchRequest
from chronik.wire.messages.metadata import MetadataRequest
from chronik.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from chronik.wire.notation import Request
from chronik.wire.records import iterate


def opened(frame: bytes, request: type[Request]) -> tuple[RequestHeader, Request]:
    view = memoryview(frame)
    assert int.from_bytes(view[:4], "big") == len(view) - 4
    header, at = decoder_of(RequestHeader, 1)(view, 4)
    message = decode(request, header.request_api_version, view[at:])
    assert header.request_api_key == request.api_key
    return header, message


@pytest.mark.parametrize("codec", Codec)
def test_a_produce_frame_holds_one_valid_batch(codec: Codec) -> None:
    """A batch that a broker refuses would measure nothing."""
    batch = frames.batch_of([b"one", b"two"], 77, codec)
    header, request = opened(frames.produce_frame("t", 3, batch, -1), ProduceRequest)
    assert isinstance(request, ProduceRequest)
    assert (header.request_api_version, request.acks, request.topic_data[0].name) == (7, -1, "t")
    data = request.topic_data[0].partition_data[0]
    view = validate_produced(memoryview(data.records or b""), 1 << 20)  # type: ignore[arg-type]
    assert (data.index, view.compression) == (3, codec)
    assert [(record.value, record.timestamp) for record in iterate(view, 1 << 20)] == [(b"one", 77), (b"two", 77)]


@given(topic=st.text("abcäöü.-", min_size=1, max_size=40), code=st.integers(-1, 133), offset=st.integers(0, 2**40))
def test_the_error_code_of_an_answer_is_where_it_is_looked_for(topic: str, code: int, offset: int) -> None:
    """Two bytes too far, and every error would look like success."""
    told = PartitionProduceResponse(index=5, error_code=code, base_offset=offset)
    response = ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[told])])
    body = encode(ResponseHeader(correlation_id=0), 0) + encode(response, frames.PRODUCE_VERSION)
    answer = len(body).to_bytes(4, "big") + body
    at = frames.produce_error_at(topic)
    assert int.from_bytes(answer[at : at + 2], "big", signed=True) == code


@given(size=st.integers(8, 5_000), stamps=st.lists(st.integers(0, 2**62), min_size=1, max_size=5))
def test_a_stamp_is_read_back_and_the_checksum_is_right(size: int, stamps: list[int]) -> None:
    """Every request gets a new stamp, so the checksum must be updated."""
    frame = frames.StampedFrame("t", 0, b"x" * size, 5, 1)
    for stamp in stamps:
        _, request = opened(frame.stamped(stamp), ProduceRequest)
        assert isinstance(request, ProduceRequest)
        [batch] = split(memoryview(request.topic_data[0].partition_data[0].records or b""))  # type: ignore[arg-type]
        assert crc_holds(batch)
        [record] = iterate(batch, 1 << 20)
        assert record.value is not None
        assert (frames.stamp_of(record.value), len(record.value)) == (stamp, size)
        assert set(record.value[8:]) <= {ord("x")}


def test_fetch_and_metadata_frames_ask_what_they_say() -> None:
    """And metadata never creates the topic it asks about."""
    _, fetch = opened(frames.fetch_frame("t", 2, 1234, max_wait_ms=5, max_bytes=99), FetchRequest)
    assert isinstance(fetch, FetchRequest)
    [asked] = fetch.topics[0].partitions
    assert (asked.partition, asked.fetch_offset, asked.partition_max_bytes, fetch.max_wait_ms) == (2, 1234, 99, 5)
    _, metadata = opened(frames.metadata_frame("t"), MetadataRequest)
    assert isinstance(metadata, MetadataRequest)
    assert not metadata.allow_auto_topic_creation
