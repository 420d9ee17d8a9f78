"""Compiled functions against the slow reader, against every cut, and against inputs made to hurt."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

import pytest

from chronik.runtime.pieces import at_once
from chronik.wire.compiler import (
    TooMany,
    brief_decoder_of,
    decode,
    decoder_of,
    encode,
    encoder_of,
    pieces_decoder_of,
    pieces_encoder_of,
)
from chronik.wire.decoding import ELEMENTS_PER_PIECE
from chronik.wire.errors import MalformedMessage, Unencodable
from chronik.wire.explain import read_slowly
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.notation import ListOf, Request, Scalar, Struct
from tests.wire.instances import Anything, Draw, all_messages, edges, layout, make

MESSAGES = list(all_messages().values())
REQUESTS = [message for message in MESSAGES if issubclass(message, Request)]  # what strangers send


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_what_is_written_is_read_back_by_both_readers(message: type[Struct]) -> None:
    random = Random(message.__name__)
    for version in message.versions:
        shape = layout(message, version)
        values = [value for _, value in edges(shape)] + [make(shape, Anything(random, tags=True)) for _ in range(5)]
        for value in values:
            data = encode(value, version)
            assert decode(message, version, data) == value
            assert read_slowly(message, version, memoryview(data)) == (value, len(data))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_what_is_read_and_written_in_pieces_is_the_same(message: type[Struct]) -> None:
    """They are compiled from the same lines, with pauses between."""
    random = Random(message.__name__)
    for version in {message.versions.first, message.versions.last}:
        value = make(layout(message, version), Anything(random, tags=True))
        data = encode(value, version)
        parts: list[Any] = []
        at_once(pieces_encoder_of(message, version)(value, parts))
        assert b"".join(parts) == data
        read, end, cost_bytes = at_once(pieces_decoder_of(message, version)(memoryview(data)))
        assert (read, end) == (value, len(data))
        assert cost_bytes >= 0


def test_a_long_message_is_read_and_written_in_many_pieces() -> None:
    """However structs are nested, only a few elements come between two pauses."""
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(31)]
    topics = [FetchTopic(topic="t", partitions=partitions)] * 100
    value = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, forgotten_topics_data=[])
    elements = 100 * 32
    data = encode(value, 11)
    parts: list[Any] = []
    assert sum(pieces_encoder_of(FetchRequest, 11)(value, parts)) == elements // ELEMENTS_PER_PIECE
    assert sum(pieces_decoder_of(FetchRequest, 11)(memoryview(data))) == elements // ELEMENTS_PER_PIECE


def test_a_brief_reader_takes_long_values_and_gives_up_on_many_elements() -> None:
    """The size of a frame does not tell how many objects it becomes: one batch of 1 MB is one object."""

    def produced(partition_count: int, records: bytes) -> ProduceRequest:
        partitions = [PartitionProduceData(index=n, records=records) for n in range(partition_count)]
        topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=partitions)
        return ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])

    read = brief_decoder_of(ProduceRequest, 8)
    data = encode(produced(2, bytes(1 << 20)), 8)
    assert read(memoryview(data), 0, 16_384) == (decode(ProduceRequest, 8, data), len(data))
    for refused in (encode(produced(1_000, b""), 8), data[:-1]):
        with pytest.raises(TooMany):
            read(memoryview(refused), 0, 16_384)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_what_is_cut_off_is_refused_in_pieces_as_well(message: type[Struct]) -> None:
    version = message.versions.last
    data = encode(make(layout(message, version), Anything(Random(version))), version)
    for size in range(min(len(data), 100)):
        with pytest.raises(MalformedMessage):
            at_once(pieces_decoder_of(message, version)(memoryview(data[:size])))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_cut_of_a_message_is_refused_by_name(message: type[Struct]) -> None:
    """n bytes make the message, so n-1 and fewer must not; the error says which field ran dry, and where."""
    for version in {message.versions.first, message.versions.last}:
        data = encode(make(layout(message, version), Anything(Random(version))), version)
        for size in range(min(len(data), 400)):
            with pytest.raises(MalformedMessage) as refused:
                decode(message, version, data[:size])
            fault = refused.value
            assert (fault.message, fault.version) == (message.__name__, version)
            assert fault.field
            assert 0 <= fault.offset <= size
            assert fault.reason != "refused", "the slow reader must find the reason"


class Dear(Draw):
    """Numbers too large to be shared, text too long to be shared: the dearest contents for their size."""

    VALUES: ClassVar = {"string": "ab", "binary": b"ab", "int16": 1000, "int32": 1 << 20, "int64": 1 << 40}

    def count(self, **kinds: bool) -> int:
        return 1

    def scalar(self, kind: Scalar, default: Any) -> Any:
        return self.VALUES.get(kind.name, kind.zero)


def lists_in(value: Any) -> Iterator[list[Any]]:
    """Every list of an instance, outer ones first."""
    for field in type(value).fields:
        found = getattr(value, field.name)
        if isinstance(found, Struct):
            yield from lists_in(found)
        elif isinstance(found, list) and isinstance(field.type, ListOf):
            yield found
            if found and isinstance(found[0], Struct):
                yield from lists_in(found[0])


@pytest.mark.slow
@pytest.mark.parametrize("message", REQUESTS, ids=lambda message: message.__name__)
def test_no_input_takes_more_memory_than_its_size_allows(message: type[Struct]) -> None:
    """16x the input + 1 MiB, also for thousands of tiny elements: a reader that obeys counts would take far more."""
    version = message.versions.last
    value = make(layout(message, version), Dear())
    decode_it = decoder_of(message, version)
    for long in list(lists_in(value)):
        kept, long[:] = long[:], long * 8_000
        view = memoryview(encode(value, version))
        long[:] = kept
        tracemalloc.start()
        try:
            with suppress(MalformedMessage):
                decode_it(view)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes <= 16 * len(view) + (1 << 20), f"{peak_bytes} for {len(view)} bytes"


REFUSED = [
    (MetadataRequest, 0, "ffffffff", "topics at byte 0: null where a value is needed"),
    (MetadataRequest, 1, "fffffffe", "topics at byte 0: a length of -2"),
    (MetadataRequest, 1, "7fffffff", "topics at byte 0: 2147483647 elements, at most 1000000 are allowed"),
    (MetadataRequest, 1, "000f4240", "topics at byte 0: 1000000 elements cannot fit in the 0 bytes left"),
    (MetadataRequest, 1, "00000001 0002 c328", "topics[0] at byte 6: not UTF-8: invalid continuation byte"),
    (MetadataRequest, 9, "01 01 01 01 ff", "tags at byte 4: ends within a varint"),
    (MetadataRequest, 9, "01 01 01 01 ffffffffff01", "tags at byte 4: a varint over five bytes"),
    (MetadataRequest, 9, "01 01 01 01 ffffffff1f", "tags at byte 4: a varint over 32 bits"),
    (MetadataRequest, 9, "01 01 01 01 914e", "tags at byte 4: 10001 tagged fields, at most 10000 are allowed"),
    (MetadataRequest, 9, "01 01 01 01 01 05 09 00", "tags at byte 7: tag 5 of 9 bytes, 1 are left"),
]


@pytest.mark.parametrize(("message", "version", "data", "reason"), REFUSED)
def test_an_error_names_message_version_field_and_offset(
    message: type[Struct], version: int, data: str, reason: str
) -> None:
    with pytest.raises(MalformedMessage) as refused:
        decode(message, version, bytes.fromhex(data))
    fault = refused.value
    assert (fault.message, fault.version) == (message.__name__, version)
    assert f"{fault.field.removesuffix('.name')} at byte {fault.offset}: {fault.reason}" == reason


def test_bytes_behind_a_message_are_refused_by_decode_and_left_to_the_caller_by_decoder_of() -> None:
    data = encode(MetadataRequest(topics=[]), 1) + b"more"
    with pytest.raises(MalformedMessage, match="4 bytes too many"):
        decode(MetadataRequest, 1, data)
    assert decoder_of(MetadataRequest, 1)(memoryview(data)) == (MetadataRequest(topics=[]), 4)


def test_a_message_may_stand_in_the_middle_of_a_buffer() -> None:
    data = b"head" + encode(MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 1)
    message, end = decoder_of(MetadataRequest, 1)(memoryview(data), 4)
    assert (message, end) == (MetadataRequest(topics=[MetadataRequestTopic(name="a")]), len(data))


def test_records_are_neither_copied_nor_joined() -> None:
    """A fetch answers with views on segment files; the parts go to the socket as they are."""
    from chronik.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    pieces = [memoryview(b"one"), memoryview(b"two")]
    partition = PartitionData(
        partition_index=0, error_code=0, high_watermark=2, aborted_transactions=None, records=pieces
    )
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    parts: list[Any] = []
    encoder_of(FetchResponse, 11)(response, parts)
    assert [part for part in parts if any(part is piece for piece in pieces)] == pieces
    assert decode(FetchResponse, 11, b"".join(parts)).responses[0].partitions[0].records == b"onetwo"


def test_what_does_not_fit_its_field_is_our_fault() -> None:
    with pytest.raises(Unencodable, match="MetadataRequest v1"):
        encode(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]), 1)
    with pytest.raises(Unencodable, match="FetchRequest v4"):
        encode(FetchRequest(max_wait_ms=1 << 40, min_bytes=1, topics=[]), 4)
    with pytest.raises(Unencodable, match="MetadataRequest v0"):
        encode(MetadataRequest(topics=None), 0)


@pytest.mark.parametrize("size_bytes", [0, 1, 126, 127, 128, 255, 16_382, 16_383, 16_384, 32_767])
def test_compact_lengths_are_read_at_every_size_of_their_varint(size_bytes: int) -> None:
    """One byte, two bytes and more take different ways, for text, records and lists."""
    partition = PartitionProduceData(index=7, records=memoryview(b"r" * size_bytes))
    topics = [TopicProduceData(name="n" * size_bytes, partition_data=[partition])]
    sent = ProduceRequest(transactional_id="t" * size_bytes, acks=-1, timeout_ms=5, topic_data=topics)
    assert decode(ProduceRequest, 9, encode(sent, 9)) == sent
    many = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(min(size_bytes, 255))])
    assert decode(MetadataRequest, 9, encode(many, 9)) == many


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        ("818002", "a string of 32768 bytes"),  # one more than it may have
        ("8000", "a value is needed"),  # null, in more bytes than it takes
        ("00", "a value is needed"),
        ("ffffffffff01", "a varint over five bytes"),
    ],
)
def test_compact_lengths_that_no_text_has_are_refused(length: str, reason: str) -> None:
    behind = b"n" * 32_768 + bytes.fromhex("00 01 00 00 00")  # all that the longest of them lacks
    with pytest.raises(MalformedMessage, match=reason):
        decode(MetadataRequest, 9, bytes.fromhex("02" + length) + behind)


def test_a_version_that_does_not_exist_is_said_with_those_that_do() -> None:
    with pytest.raises(Unencodable, match="ProduceResponse has no version 14, only 0-13"):
        encode(ProduceResponse(responses=[]), 14)
