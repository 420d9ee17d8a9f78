"""Produce: every version, magic and codec, every refusal, and the records that a reader finds afterwards."""

from __future__ import annotations

import struct

import pytest

from chronik.wire.compression import Codec
from chronik.wire.legacy_batches import build as build_legacy
from chronik.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.oracle.asking import (
    TIME_MS,
    TIMEOUT_MS,
    batch,
    begin_producer,
    create_topic,
    fetch,
    find_coordinator,
    produce,
    records,
)
from tests.oracle.comparison import Asked, Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

READ_VERSION = 12  # version of Fetch, to read the stored records
VERSION_TOPIC_IDS = 13
VERSION_MAGIC_2 = 3
VERSION_ZSTD = 7


def asked(name: str, data: bytes | None, version: int, **more: int) -> Asked:
    """By name, or from v13 on by the id that each server gave it."""
    if version < VERSION_TOPIC_IDS:
        return produce(name, data, **more)
    return lambda server: produce("", data, topic_id=server.topic_ids[name], **more)


def read(pair: Pair, name: str, *, repacked: bool = False) -> None:
    """Both logs from their beginning."""
    pair.ask(fetch(name, 0), READ_VERSION, repacked=repacked)


def test_produce_of_magic_2(pair: Pair) -> None:
    """Each codec and each acks, in each version. The stored batches are those that were sent, with offset and epoch
    set."""
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2):
        name = create_topic(pair, pair.name(f"v{version}"))
        for codec in Codec:
            pair.ask(asked(name, batch(3, codec), version), version)
        for acks in (1, -1):
            pair.ask(asked(name, batch(2, first=5), version, acks=acks), version)
        read(pair, name)


@pytest.mark.parametrize("magic", [0, 1])
def test_produce_of_old_message_sets(pair: Pair, magic: int) -> None:
    """Old clients send sets of magic 0 and 1: stored as magic 2, their codec kept, read back by old and new."""
    for version in pair.versions(ProduceRequest, last=VERSION_MAGIC_2 - 1):
        name = create_topic(pair, pair.name(f"m{magic}v{version}"))
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            pair.ask(produce(name, build_legacy(records(3), magic, codec)), version)
        pair.ask(produce(name, build_legacy(records(1, key=None), magic)), version)
        read(pair, name, repacked=True)
        broken = bytearray(build_legacy(records(1), magic))
        broken[-1] ^= 1
        pair.ask(produce(name, bytes(broken)), version)
        pair.ask(produce(name, b""), version)
        pair.ask(produce(name, bytes(broken[:20])), version)
        pair.ask(produce(name, build_legacy(records(1), 1 - magic) + build_legacy(records(1), magic)), version)
        pair.ask(produce(name, build_legacy(records(3, size=60_000), magic)), version)
        pair.ask(produce(name, batch(2)), version)
        read(pair, name, repacked=True)


def test_produce_without_an_answer(pair: Pair) -> None:
    """acks=0: silence, then the next answer on the same connection; and an end of the connection on failure."""
    for version in pair.versions(ProduceRequest):
        name = create_topic(pair, pair.name(f"v{version}"))
        data = batch(2) if version >= VERSION_MAGIC_2 else build_legacy(records(2), 1 if version == 2 else 0)
        pair.send(asked(name, data, version, acks=0), version)
        pair.ask(fetch(name, 0, max_wait_ms=TIMEOUT_MS, min_bytes=1), READ_VERSION)
        pair.send(asked(name, data, version, acks=0, partition=9), version, on="doomed")
        latest = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        pair.send(ListOffsetsRequest(replica_id=-1, topics=[latest]), 2, on="doomed")
        pair.receive(ListOffsetsRequest, 2, on="doomed")


def test_produce_to_what_is_not_there(pair: Pair) -> None:
    """Unknown topics, partitions and ids."""
    for version in pair.versions(ProduceRequest):
        name = create_topic(pair, pair.name(f"v{version}"))
        data = batch() if version >= VERSION_MAGIC_2 else build_legacy(records(1), 0)
        pair.ask(asked(name, data, version, partition=7), version)
        pair.ask(asked(name, data, version, partition=-1), version)
        if version < VERSION_TOPIC_IDS:
            pair.ask(produce(pair.name("unknown"), data), version)
            pair.ask(produce("bad/name", data), version)
            pair.ask(produce("", data), version)
        else:
            pair.ask(produce("", data, topic_id=b"\x05" * 16), version)
            pair.ask(produce("", data, topic_id=bytes(16)), version)
        for acks in (2, -2, 7):
            pair.ask(asked(name, data, version, acks=acks), version)
        pair.ask(ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[]), version)


def test_produce_of_bad_batches(pair: Pair) -> None:
    """Data that is not a batch, or is a batch that a client may not write. (Kafka never responds to null records.)"""
    good = batch(2)

    def patched(at: int, form: str, value: int, *, whole: bytes = good) -> bytes:
        made = bytearray(whole)
        struct.pack_into(form, made, at, value)
        return bytes(made)

    def resealed(data: bytes) -> bytes:
        from chronik.wire.checksums import crc32c

        return patched(17, ">I", crc32c(memoryview(data)[21:]), whole=data)

    cases = {
        "empty": b"",
        "short": good[:30],
        "crc": patched(17, ">I", 1),
        "two batches": good + good,
        "magic 1": build_legacy(records(1), 1),
        "magic 3": patched(16, ">b", 3),
        "length": patched(8, ">i", 10),
        "length above": patched(8, ">i", 10_000),
        "negative length": patched(8, ">i", -1),
        "base offset": patched(0, ">q", 5),
        "control": resealed(patched(21, ">h", 0x20)),
        "count above": resealed(patched(57, ">i", 3)),
        "count zero": resealed(patched(57, ">i", 0)),
        "last delta": resealed(patched(23, ">i", 7)),
        "too large": batch(3, size=50_000),
        "just too large": batch(1, size=100_000),
        "no sequence": batch(1, producer_id=4, producer_epoch=0, base_sequence=-1),
        "records do not fit": resealed(patched(57, ">i", 1000, whole=resealed(patched(23, ">i", 999)))),
    }
    refused_by_one = {
        "trailing byte": (good + b"\x00", "bytes-after-a-batch"),
        "codec 7": (resealed(patched(21, ">h", 7)), "codec-that-does-not-exist"),
        "compressed log append time": (
            resealed(patched(21, ">h", 0x09, whole=batch(2, Codec.GZIP))),
            "append-time-from-a-client",
        ),
        "log append time": (resealed(patched(21, ">h", 0x08)), "append-time-from-a-client"),
        "gzip that is none": (resealed(patched(21, ">h", 1)), "records-are-not-read"),
    }
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2):
        name = create_topic(pair, pair.name(f"v{version}"))
        for pair.case, data in cases.items():
            pair.ask(asked(name, data, version), version)
        read(pair, name)
        other = create_topic(pair, pair.name(f"other{version}"))
        for pair.case, (data, differs) in refused_by_one.items():
            pair.ask(asked(other, data, version), version, differs=differs)


def test_produce_to_a_compacted_topic(pair: Pair) -> None:
    """Records without a key are refused one by one."""
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2):
        name = create_topic(pair, pair.name(f"v{version}"), cleanup_policy="compact")
        from chronik.wire.batches import build

        mixed = records(2) + [each._replace(offset=2 + i, key=None) for i, each in enumerate(records(2))]
        pair.ask(asked(name, build(mixed), version), version)
        pair.ask(asked(name, batch(2), version), version)
        read(pair, name)


def test_produce_with_configured_topics(pair: Pair) -> None:
    """Timestamps of the broker, codecs of the topic, limits of the topic."""
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2)[-2:]:
        appended = create_topic(pair, pair.name(f"append{version}"), message_timestamp_type="LogAppendTime")
        pair.ask(asked(appended, batch(2), version), version)
        small = create_topic(pair, pair.name(f"small{version}"), max_message_bytes="100")
        pair.ask(asked(small, batch(1), version), version)
        pair.ask(asked(small, batch(9), version), version)
        read(pair, small)
        zipped = create_topic(pair, pair.name(f"zip{version}"), compression_type="gzip")
        pair.ask(asked(zipped, batch(4), version), version)
        pair.ask(asked(zipped, batch(4, Codec.LZ4), version), version)
        read(pair, zipped, repacked=True)
        plain = create_topic(pair, pair.name(f"plain{version}"), compression_type="uncompressed")
        pair.ask(asked(plain, batch(4, Codec.ZSTD), version), version)
        read(pair, plain, repacked=True)
        timely = create_topic(pair, pair.name(f"time{version}"), message_timestamp_before_max_ms="1000")
        pair.ask(asked(timely, batch(2), version), version)
        tiny = create_topic(pair, pair.name(f"tiny{version}"), segment_bytes="1048576", max_message_bytes="5000000")
        pair.ask(asked(tiny, batch(12, size=99_000), version), version)
        guarded = create_topic(pair, pair.name(f"isr{version}"), min_insync_replicas="2")
        pair.ask(asked(guarded, batch(2), version), version)
        pair.ask(asked(guarded, batch(2), version, acks=1), version)


def test_produce_to_an_internal_topic(pair: Pair) -> None:
    """Only the coordinator writes there."""
    find_coordinator(pair)
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2, last=VERSION_TOPIC_IDS - 1):
        pair.ask(produce("__consumer_offsets", batch(1)), version)


def test_zstd_in_versions_that_do_not_know_it(pair: Pair) -> None:
    """zstd came with Produce v7: older versions get an error."""
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2, last=VERSION_ZSTD - 1):
        name = create_topic(pair, pair.name(f"v{version}"))
        pair.ask(produce(name, batch(3, Codec.ZSTD)), version)


def test_idempotent_produce(pair: Pair) -> None:
    """Sequences: duplicates are answered with their first offset, gaps and old epochs refused."""
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2):
        name = create_topic(pair, pair.name(f"v{version}"))
        begin_producer(pair)

        def send(sequence: int, count: int = 2, *, epoch: int = 0, version: int = version, name: str = name) -> None:
            def made(server: Server) -> ProduceRequest:
                data = batch(count, producer_id=server.kept["producer"], producer_epoch=epoch, base_sequence=sequence)
                topic_id = server.topic_ids[name] if version >= VERSION_TOPIC_IDS else bytes(16)
                return produce("" if version >= VERSION_TOPIC_IDS else name, data, topic_id=topic_id)

            pair.ask(made, version)

        send(0)
        send(0)  # a duplicate
        send(2)
        send(0)
        send(3)  # a gap, backwards
        send(9)  # a gap, forwards
        send(4, 1)
        send(5)
        send(7)
        send(9)
        send(11)
        send(13)
        send(0)  # a duplicate too old to be remembered
        send(0, 1)  # part of one
        send(5, epoch=1)  # a new epoch begins with 0
        send(0, epoch=1)
        send(15, epoch=0)  # the old one is over
        send(0, 1, epoch=2)
        begin_producer(pair)
        send(5)  # an unknown producer may start with any sequence number
        send(0)
        send(7)


def test_produce_to_several_partitions(pair: Pair) -> None:
    """One request, good and bad partitions of several topics: each is answered alone, in order."""
    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2):
        a, b = create_topic(pair, pair.name(f"a{version}"), 3), create_topic(pair, pair.name(f"b{version}"), 2)

        def request(server: Server, a: str = a, b: str = b, version: int = version) -> ProduceRequest:
            by_id = version >= VERSION_TOPIC_IDS
            return ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[
                    TopicProduceData(
                        name="" if by_id else name,
                        topic_id=server.topic_ids[name] if by_id else bytes(16),
                        partition_data=[PartitionProduceData(index=i, records=d) for i, d in parts],
                    )
                    for name, parts in (
                        (b, [(1, batch()), (0, batch()[:-1] + b"?"), (5, batch())]),
                        (a, [(2, batch(3)), (0, batch(2))]),
                    )
                ],
            )

        pair.ask(request, version, unordered=("responses", "partition_responses"))
        read(pair, a)


def test_times_of_records(pair: Pair) -> None:
    """A record without a time, one of the future, one before 1970."""
    from chronik.wire.batches import build
    from chronik.wire.records import Record

    for version in pair.versions(ProduceRequest, first=VERSION_MAGIC_2)[-1:]:
        for case, time_ms in (("none", -1), ("zero", 0), ("future", TIME_MS * 4), ("negative", -7)):
            name = create_topic(pair, pair.name(case))
            pair.ask(asked(name, build([Record(0, time_ms, b"k", b"v")]), version), version)
            pair.ask(fetch(name, 0), READ_VERSION, differs="records-are-not-read" if case == "negative" else None)
