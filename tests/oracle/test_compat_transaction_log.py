"""Stored and displayed data about transactions: the records of __transaction_state, lists, coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chronik.wire import records as record_codec
from chronik.wire.batches import BatchView, crc_holds, split
from chronik.wire.compiler import decode, encode
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest
from chronik.wire.messages.init_producer_id import InitProducerIdRequest
from chronik.wire.messages.list_transactions import ListTransactionsRequest
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from tests.oracle.asking import create_topic, fetch
from tests.oracle.comparison import Pair, Server
from tests.oracle.masks import CLOCK_MS_MIN
from tests.oracle.transacting import (
    OLDER,
    TIMEOUT_MS,
    TRANSACTION_KEY,
    VERSION_BUMP,
    Maker,
    add,
    add_offsets,
    begin_transactions,
    describe,
    end,
    init,
    keep,
    settle,
)

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

STATE_TOPIC = "__transaction_state"
RECORDS_BYTES_MAX = 1 << 20


def stored(server: Server, prefix: str) -> list[tuple[Any, ...]]:
    """The records about ids with this prefix, as stored in the log: their bytes, except producer ids and times."""
    found = []
    for partition in _partitions(server):
        for batch in _batches(server, partition):
            assert crc_holds(batch)
            for record in record_codec.iterate(batch, RECORDS_BYTES_MAX):
                assert record.key is not None
                key = decode(TransactionLogKey, 0, record.key[2:])
                if key.transactional_id.startswith(prefix):
                    header = (batch.attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence)
                    place = partition, header, batch.record_count, record.headers
                    found.append((key.transactional_id, place, record.key, _value(server, record.value)))
    return sorted(found, key=lambda each: each[0])  # stable: the records of one id stay in order


def _batches(server: Server, partition: int) -> Iterator[BatchView]:
    """All of a partition, in as many answers as the server likes."""
    offset = 0
    while True:
        server.send(fetch(STATE_TOPIC, offset, partition=partition), 12)
        (topic,) = server.receive(FetchResponse, 12).message.responses
        batches = split(memoryview(bytes(topic.partitions[0].records or b"")), cut_tail=True)
        yield from batches
        if not batches:
            return
        offset = batches[-1].next_offset


def _value(server: Server, value: bytes | None) -> tuple[int, bytes] | None:
    if value is None:
        return None
    version = int.from_bytes(value[:2])
    decoded = decode(TransactionLogValue, version, value[2:])
    assert encode(decoded, version) == value[2:], "our wire layer does not give back the bytes"
    for name in ("producer_id", "previous_producer_id", "next_producer_id"):
        setattr(decoded, name, server.names.of("producer", getattr(decoded, name)))
    for name in ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms"):
        setattr(decoded, name, min(getattr(decoded, name), CLOCK_MS_MIN))
    for topic in decoded.transaction_partitions or ():
        topic.partition_ids.sort()  # in the order of Kafka's hash table
    if decoded.transaction_partitions:
        decoded.transaction_partitions.sort(key=lambda topic: topic.topic)
    return version, encode(decoded, version)


def _partitions(server: Server) -> list[int]:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=STATE_TOPIC)], allow_auto_topic_creation=False)
    server.send(asked, 4)
    (topic,) = server.receive(MetadataResponse, 4).message.topics
    return sorted(partition.partition_index for partition in topic.partitions)


def compare_logs(pair: Pair) -> None:
    kafka, chronik = (stored(server, pair.prefix) for server in pair.servers)
    ids = sorted({each[0] for each in kafka + chronik})
    assert kafka, "nothing was written"
    for transactional_id in ids:
        pair.case = transactional_id
        mine, ours = ([each[1:] for each in log if each[0] == transactional_id] for log in (kafka, chronik))
        pair.agree(f"records of {transactional_id}", len(mine), len(ours))
        for index, (one, other) in enumerate(zip(mine, ours, strict=False)):
            pair.agree(f"record {index} of {transactional_id}", _readable(one), _readable(other))


def _readable(record: tuple[Any, ...]) -> tuple[Any, ...]:
    place, key, value = record
    return place, key, value and (value[0], value[1], decode(TransactionLogValue, value[0], value[1]))


@pytest.mark.parametrize("bumps", [False, True], ids=["same-epoch", "epoch-bump"])
def test_records_of_transactions(pair: Pair, bumps: bool) -> None:
    """Every transition leaves the record that Kafka's own coordinator would read."""
    if bumps and not pair.features["transaction.version"]:
        pytest.skip("this Kafka has no transactions with an epoch of their own")
    maker = Maker.create(pair)
    add_version, end_version = (4, VERSION_BUMP) if bumps else (1, 1)
    for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort"):
        who = maker.make(state, bumps)
        if pair.release != OLDER or not state.startswith("Complete"):  # the older Kafka keeps the last start time
            keep(pair, who, pair.ask(init(who), 4))
            settle(pair, who)
            keep(pair, who, pair.ask(init(who), 4))
    many = maker.make("Empty", bumps)
    pair.ask(add(many, add_version, {maker.topic: [0]}), add_version)
    pair.ask(add(many, add_version, {maker.topic: [1]}), add_version)
    pair.ask(add(many, add_version, {maker.topic: [0, 1]}), add_version, unordered=("results_by_partition",))
    pair.ask(add_offsets(many, pair.name("group")), 3)
    keep(pair, many, pair.ask(end(many, True), end_version))
    settle(pair, many)
    if bumps:
        for commits in (False, True, False):  # without a transaction
            keep(pair, many, pair.ask(end(many, commits), end_version))
            settle(pair, many)
    compare_logs(pair)


def test_records_of_a_timeout(pair: Pair) -> None:
    """A transaction that its producer leaves open is aborted, with an epoch that the producer does not have."""
    begin_transactions(pair)
    topic = create_topic(pair, pair.name("t"))
    who = pair.name("p")
    keep(pair, who, pair.ask(init(who, timeout_ms=100), 4))
    pair.ask(add(who, 3, {topic: [0]}), 3)
    settle(pair, who, ("Ongoing", "PrepareAbort", "PrepareEpochFence"))
    pair.ask(end(who, True), 3)
    pair.ask(init(who, (0, 0)), 4)
    pair.ask(init(who), 4)
    compare_logs(pair)


def test_initializing_badly(pair: Pair) -> None:
    """Names, times and claims that no coordinator accepts."""
    begin_transactions(pair)
    for version in pair.served(InitProducerIdRequest):
        who = pair.name(f"p{version}")
        for timeout_ms in (0, -1, 900_000, 900_001, 2**31 - 1):
            pair.case = f"timeout {timeout_ms}"
            pair.ask(init(who, timeout_ms=timeout_ms), version)
        pair.ask(init("", timeout_ms=TIMEOUT_MS), version)
        if version >= 3:
            for producer_id, epoch in ((5, -1), (-1, 0), (-1, -1), (77_777, 0)):
                pair.case = f"{producer_id} {epoch}"
                request = InitProducerIdRequest(
                    transactional_id=pair.name(f"q{version}"),
                    transaction_timeout_ms=TIMEOUT_MS,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                )
                pair.ask(request, version)
                request.transactional_id = None
                pair.ask(request, version)


def test_listing_transactions(pair: Pair) -> None:
    """Filters by state, producer, duration and name. Other scenarios have transactions too: compared are ours."""
    maker = Maker.create(pair)
    ids = [maker.make(state, False) for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")]
    ids.append(maker.make("PrepareCommit", False))

    def ask(version: int, *, only: int | None = None, **filters: Any) -> None:
        def request(server: Server) -> ListTransactionsRequest:
            ours = [server.kept[f"producer {each}"][0] for each in ids]
            asked = ListTransactionsRequest(state_filters=[], producer_id_filters=ours)
            for name, value in filters.items():
                setattr(asked, name, value)
            if only is not None:
                asked.producer_id_filters = [only]
            return asked

        pair.ask(request, version, unordered=("transaction_states", "unknown_state_filters"))

    for version in pair.served(ListTransactionsRequest):
        ask(version)
        ask(version, only=-5)
        for states in (["Ongoing"], ["Empty", "PrepareCommit"], ["Dead"], ["PrepareEpochFence"], ["ongoing", "x", "x"]):
            pair.case = str(states)
            ask(version, state_filters=states)
        if version >= 1:
            for duration in (-2, -1, 0, 3_600_000):
                pair.case = f"longer than {duration}"
                ask(version, duration_filter=duration)
        if version >= 2:
            for pattern in ("", ".*", ".*Ongoing", "Ongoing", "(", ".*(Empty|Commit)$"):
                pair.case = f"pattern {pattern}"
                ask(version, transactional_id_pattern=pattern)


def test_describing_transactions(pair: Pair) -> None:
    """Of many at once: known, unknown, without a name."""
    maker = Maker.create(pair)
    ids = [maker.make(state, False) for state in ("Empty", "Ongoing", "CompleteCommit", "PrepareAbort")]
    pair.ask(describe(*ids, pair.name("unknown"), ""), 0, unordered=("topics", "partitions"))
    pair.ask(describe(ids[0], ids[0]), 0)
    pair.ask(describe(), 0)


def test_finding_coordinators_of_transactions(pair: Pair) -> None:
    """One and many, and names that are none."""
    begin_transactions(pair)
    for version in pair.served(FindCoordinatorRequest):
        if version == 0:
            continue
        if version < 4:
            for key in ("some", ""):
                pair.ask(FindCoordinatorRequest(key=key, key_type=TRANSACTION_KEY), version)
        else:
            request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=["some", "other", "", "some"])
            pair.ask(request, version)
