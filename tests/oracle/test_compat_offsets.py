"""The data about a partition's log: offsets by time and position, epochs, producers, sizes, deleted records."""

from __future__ import annotations

import pytest

from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from chronik.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from chronik.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from chronik.wire.messages.fetch import FetchRequest
from chronik.wire.messages.init_producer_id import InitProducerIdRequest
from chronik.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from chronik.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from chronik.wire.messages.produce import ProduceRequest
from chronik.wire.records import Record
from tests.oracle.asking import (
    TIME_MS,
    TIMEOUT_MS,
    batch,
    begin_producer,
    create_topic,
    fetch,
    find_coordinator,
    produce,
    produce_all,
)
from tests.oracle.comparison import Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

EARLIEST, LATEST = -2, -1


def list_offsets(
    name: str, time_ms: int, *, partition: int = 0, isolation: int = 0, epoch: int = -1, count: int = 1
) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(
        partition_index=partition, timestamp=time_ms, current_leader_epoch=epoch, max_num_offsets=count
    )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=[wanted])],
        timeout_ms=TIMEOUT_MS,
    )


def at_times(*times: int, codec: Codec = Codec.NONE) -> bytes:
    return build([Record(i, TIME_MS + each, b"k", b"v%d" % i) for i, each in enumerate(times)], codec)


def test_offsets_by_position(pair: Pair) -> None:
    """The special times -1 to -6, in a log that is empty, filled and partly deleted."""
    empty, full, cut = (create_topic(pair, pair.name(each)) for each in ("empty", "full", "cut"))
    for name in (full, cut):
        produce_all(pair, name, [at_times(5, 9, 7), at_times(3), at_times(9, 2, codec=Codec.GZIP)])
    pair.do(delete_records(cut, 2), 2)
    for version in pair.versions(ListOffsetsRequest):
        for name in (empty, full, cut):
            for time_ms in (LATEST, EARLIEST, -3, -4, -5, -6, -7):
                pair.case = f"{name} {time_ms}"
                below = "time-below-the-start" if name == cut and time_ms == -3 and version >= 7 else None
                pair.ask(list_offsets(name, time_ms), version, differs=below)
            if version >= 2:
                pair.ask(list_offsets(name, LATEST, isolation=1), version)


def test_offsets_by_time(pair: Pair) -> None:
    """The first record that is not older: exact inside batches, whatever their order and codec."""
    for codec in (Codec.NONE, Codec.LZ4):
        name = create_topic(pair, pair.name(codec.name.lower()))
        produce_all(
            pair,
            name,
            [at_times(10, 30, 20, codec=codec), at_times(5, codec=codec), at_times(40, 41, 42, codec=codec)],
        )
        for version in pair.versions(ListOffsetsRequest, first=1):
            for time_ms in (0, 1, 5, 10, 11, 20, 21, 30, 31, 40, 42, 43, 10_000_000):
                pair.case = f"{codec.name} {time_ms}"
                pair.ask(list_offsets(name, TIME_MS + time_ms), version)
            pair.ask(list_offsets(name, 0), version)


def test_offsets_of_what_is_not_there(pair: Pair) -> None:
    """Unknown topics and partitions, leader epochs of the past and of the future, old-style lists."""
    name = create_topic(pair, pair.name("there"))
    produce_all(pair, name, [batch(3)])
    for version in pair.versions(ListOffsetsRequest):
        pair.ask(list_offsets(pair.name("unknown"), LATEST), version)
        pair.ask(list_offsets("bad/name", LATEST), version)
        pair.ask(list_offsets(name, LATEST, partition=4), version)
        pair.ask(list_offsets(name, LATEST, partition=-1), version)
        pair.ask(ListOffsetsRequest(replica_id=-1, topics=[]), version)
        if version == 0:
            for time_ms in (LATEST, EARLIEST, TIME_MS, TIME_MS * 2):
                for count in (0, 1, 2, 10):
                    pair.case = f"{time_ms}, at most {count}"
                    pair.ask(list_offsets(name, time_ms, count=count), version)
        if version >= 4:
            for epoch in (0, 1, 9):
                pair.ask(list_offsets(name, LATEST, epoch=epoch), version)
        twice = list_offsets(name, LATEST)
        twice.topics[0].partitions *= 2
        pair.ask(twice, version)


def test_offsets_for_leader_epochs(pair: Pair) -> None:
    """Where an epoch ended: the present one, one of the past, one of the future."""
    empty, full = create_topic(pair, pair.name("empty")), create_topic(pair, pair.name("full"))
    produce_all(pair, full, [batch(3), batch(2)])

    def ask(name: str, partition: int, epoch: int, current: int, version: int) -> None:
        wanted = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
        topic = OffsetForLeaderTopic(topic=name, partitions=[wanted])
        pair.case = f"{name} epoch {epoch} current {current}"
        pair.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), version)

    for version in pair.versions(OffsetForLeaderEpochRequest):
        for name in (empty, full):
            for epoch in (-1, 0, 1, 7):
                ask(name, 0, epoch, -1, version)
            if version >= 2:
                for current in (0, 1):
                    ask(name, 0, 0, current, version)
        ask(full, 3, 0, -1, version)
        ask(pair.name("unknown"), 0, 0, -1, version)


def delete_records(name: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[wanted])], timeout_ms=TIMEOUT_MS)


def test_deleting_records(pair: Pair) -> None:
    """The log start offset only increases, also inside batches, and is reported to consumers and producers."""
    find_coordinator(pair)
    for version in pair.versions(DeleteRecordsRequest):
        name = create_topic(pair, pair.name(f"v{version}"))
        compacted = create_topic(pair, pair.name(f"compacted{version}"), cleanup_policy="compact")
        produce_all(pair, name, [batch(3), batch(4)])
        for offset in (0, 2, 1, 4, 8, 100, -2, -1):
            pair.case = f"before {offset}"
            pair.ask(delete_records(name, offset), version)
            pair.ask(list_offsets(name, EARLIEST), 4)
            for start in (0, 2, 5):
                pair.ask(fetch(name, start), 12)
        pair.ask(produce(name, batch(1)), 8)
        pair.ask(delete_records(name, 0, partition=5), version)
        pair.ask(delete_records(pair.name("unknown"), 0), version)
        pair.ask(delete_records(compacted, 0), version)
        pair.ask(delete_records("__consumer_offsets", 0), version)


def test_producer_ids(pair: Pair) -> None:
    """Ids for idempotent producers; transactions are refused."""
    begin_producer(pair)
    for version in pair.versions(InitProducerIdRequest):
        pair.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), version)
        pair.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
        pair.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000), version)


def test_describing_producers(pair: Pair) -> None:
    """A partition's state of its idempotent producers."""
    name = create_topic(pair, pair.name("written"), 2)
    begin_producer(pair)

    def write(sequence: int, count: int) -> None:
        def request(server: Server) -> ProduceRequest:
            return produce(
                name, batch(count, producer_id=server.kept["producer"], producer_epoch=0, base_sequence=sequence)
            )

        pair.do(request, 8)

    for version in pair.versions(DescribeProducersRequest):
        for step in (0, 1):
            if step:
                write(0, 2)
                write(2, 3)
            asked = TopicRequest(name=name, partition_indexes=[0, 1, 5])
            pair.ask(DescribeProducersRequest(topics=[asked]), version, unordered=("partitions",))
        unknown = TopicRequest(name=pair.name("unknown"), partition_indexes=[0])
        pair.ask(DescribeProducersRequest(topics=[unknown]), version)


def test_describing_log_dirs(pair: Pair) -> None:
    """The sizes of logs on disk are the sizes of the written batches."""
    name = create_topic(pair, pair.name("sized"), 2)
    produce_all(pair, name, [batch(3), batch(4)])
    for version in pair.versions(DescribeLogDirsRequest):
        for partitions in ([0], [0, 1], [7], []):
            pair.case = str(partitions)
            wanted = DescribableLogDirTopic(topic=name, partitions=partitions)
            pair.ask(DescribeLogDirsRequest(topics=[wanted]), version, unordered=("partitions",))
        unknown = DescribableLogDirTopic(topic=pair.name("unknown"), partitions=[0])
        pair.ask(DescribeLogDirsRequest(topics=[unknown]), version)
        pair.ask(DescribeLogDirsRequest(topics=[]), version)


def test_fetch_tells_of_log_starts(pair: Pair) -> None:
    """A reader below the start learns where the log begins."""
    name = create_topic(pair, pair.name("cut"))
    produce_all(pair, name, [batch(3), batch(4)])
    pair.do(delete_records(name, 4), 2)
    for version in pair.versions(FetchRequest, last=12):
        for offset in (0, 3, 4, 6, 7):
            pair.case = f"from {offset}"
            pair.ask(fetch(name, offset), version)
