"""Transactions on partitions: batches in and out of transactions, markers, and what readers of each kind find."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from chronik.wire.batches import build
from chronik.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from chronik.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from chronik.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from chronik.wire.messages.end_txn import EndTxnRequest
from chronik.wire.messages.fetch import FetchRequest
from chronik.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.oracle.asking import TIMEOUT_MS, create_topic, fetch, find_coordinator, records
from tests.oracle.comparison import Asked, Pair, Server
from tests.oracle.transacting import (
    CLAIMS,
    EPOCH_AFTER,
    EPOCH_BEFORE,
    LATER_COORDINATOR,
    OLDER,
    OTHER_ID,
    PRESENT,
    VERSION_BUMP,
    VERSION_IDS,
    add,
    begin_transactions,
    describe,
    end,
    init,
    keep,
    mark,
    producer,
    settle,
    write,
)

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

VERSION_TRANSACTIONS = 3  # of Produce
VERSION_ADDS = 12  # of Produce: writing to a partition adds it to the transaction
VERSION_ISOLATION = 4  # of Fetch
LATEST, COMMITTED = -1, 1
ANY_ORDER = ("responses", "partition_responses")
MARKED = ("markers", "topics", "partitions")


class Script:
    """One transactional producer and one topic of two partitions, at one version of Produce."""

    def __init__(self, pair: Pair, version: int, name: str = "t") -> None:
        self.pair, self.version = pair, version
        self.topic = create_topic(pair, pair.name(f"{name}{version}"), 2)
        self.bumps = version >= VERSION_ADDS
        self.end_version = VERSION_BUMP if self.bumps else 3

    def begin(self, who: str) -> str:
        name = self.pair.name(f"{who}{self.version}")
        keep(self.pair, name, self.pair.ask(init(name), 4))
        return name

    def add(self, who: str, *partitions: int) -> None:
        """As clients do that do not add by writing."""
        if not self.bumps:
            self.pair.ask(add(who, 3, {self.topic: list(partitions)}), 3, unordered=("results_by_partition",))

    def write(self, who: str, sequence: int, claim: tuple[int, int] = PRESENT, **more: Any) -> None:
        self.pair.ask(write(who, self.topic, self.version, sequence, claim, **more), self.version)

    def end(self, who: str, commits: bool) -> None:
        answers = self.pair.ask(end(who, commits), self.end_version)
        keep(self.pair, who, answers)
        settle(self.pair, who)

    def look(self, *partitions: int) -> None:
        """What readers of both kinds, and operators, see."""
        for partition in partitions or (0,):
            for isolation in (0, COMMITTED):
                self.pair.ask(fetch(self.topic, 0, partition=partition, isolation=isolation), 12)
                wanted = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
                topic = ListOffsetsTopic(name=self.topic, partitions=[wanted])
                self.pair.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), 4)
        asked = TopicRequest(name=self.topic, partition_indexes=[0, 1])
        self.pair.ask(DescribeProducersRequest(topics=[asked]), 0, unordered=("partitions", "active_producers"))


def produce_versions(pair: Pair) -> list[int]:
    return [version for version in pair.served(ProduceRequest) if version >= VERSION_TRANSACTIONS]


def test_batches_of_a_transaction(pair: Pair) -> None:
    """In order, out of order, twice, to a partition that is not in it; then its end, and the next one."""
    begin_transactions(pair)
    for version in produce_versions(pair):
        script = Script(pair, version)
        who = script.begin("p")
        script.write(who, 0)  # nothing was added
        script.look()
        script.add(who, 0)
        script.write(who, 0, partition=1)
        for sequence in (0, 1, 0, 1, 5, 2):
            pair.case = f"sequence {sequence}"
            script.write(who, sequence)
        script.write(who, 3)
        script.look(0, 1)
        pair.ask(describe(who), 0, unordered=("topics", "partitions"))
        script.end(who, True)
        script.look(0, 1)
        pair.case = "after the commit"
        script.write(who, 4)
        script.write(who, 0)
        script.add(who, 0)
        script.write(who, 4)
        script.write(who, 0)
        script.look()
        script.end(who, False)
        script.look()
        pair.case = "after the abort"
        script.write(who, 5)
        script.write(who, 0)
        script.add(who, 0)
        script.write(who, 5)
        script.write(who, 6)
        script.end(who, True)
        script.look()


def test_batches_of_strangers(pair: Pair) -> None:
    """With another epoch, with an id that the coordinator does not know, without a transactional id or with another
    producer's."""
    begin_transactions(pair)
    for version in produce_versions(pair):
        script = Script(pair, version)
        who, other = script.begin("p"), script.begin("other")
        never = pair.name(f"never {version}")
        for is_open in (False, True):
            if is_open:
                script.add(who, 0)
                script.write(who, 0)
            sequence = int(is_open)
            for claim, values in CLAIMS.items():
                # The older Kafka asks its coordinator only if no transaction at all is open on the partition.
                is_judged = pair.release != OLDER or not is_open or values == OTHER_ID
                if values != PRESENT and is_judged:
                    pair.case = f"{claim}, open {is_open}"
                    script.write(who, sequence, values)
            pair.case = f"other's name, open {is_open}"
            script.write(who, sequence, transactional_id=other)
            pair.case = f"nobody's name, open {is_open}"
            script.write(who, sequence, transactional_id=never)
            pair.case = f"no name, open {is_open}"
            script.write(who, sequence, transactional_id=None)
            script.look()
        pair.case = "not transactional"
        script.write(who, 1, is_transactional=False)
        script.write(who, 1, is_transactional=False, transactional_id=None)
        script.write(other, 0, is_transactional=False, transactional_id=None)
        script.look()
        script.end(who, False)
        script.write(who, 1, is_transactional=False, transactional_id=None)
        script.write(who, 0, EPOCH_AFTER, is_transactional=False, transactional_id=None)
        script.look()


def test_batches_of_a_fenced_producer(pair: Pair) -> None:
    """A second producer of the same transactional id takes over: the first one's batches are refused from then on."""
    begin_transactions(pair)
    for version in produce_versions(pair):
        script = Script(pair, version)
        who = script.begin("p")
        script.add(who, 0)
        script.write(who, 0)
        pair.ask(init(who), 4)  # aborts, and returns CONCURRENT_TRANSACTIONS
        settle(pair, who)
        keep(pair, who, pair.ask(init(who), 4))
        script.look()
        script.write(who, 1, EPOCH_BEFORE)
        script.write(who, 1, (0, -2))
        script.write(who, 0)
        script.add(who, 0)
        script.write(who, 1, EPOCH_BEFORE)
        script.write(who, 0)
        script.look()
        script.end(who, True)
        script.look()


def test_many_batches_in_one_request(pair: Pair) -> None:
    """Partitions in and out of the transaction, and batches of two producers."""
    begin_transactions(pair)
    for version in produce_versions(pair):
        script = Script(pair, version)
        who, other = script.begin("p"), script.begin("other")

        def request(server: Server, *parts: tuple[int, str, bool], script: Script = script) -> ProduceRequest:
            by_id = script.version >= VERSION_IDS
            data = []
            for index, name, is_transactional in parts:
                producer_id, epoch = producer(server, name) if name else (-1, -1)
                more = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0} if name else {}
                made = build(records(1), is_transactional=is_transactional, **more)
                data.append(PartitionProduceData(index=index, records=made))
            topic = TopicProduceData(
                name="" if by_id else script.topic,
                topic_id=server.topic_ids[script.topic] if by_id else bytes(16),
                partition_data=data,
            )
            named = parts[0][1]
            return ProduceRequest(transactional_id=named, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])

        script.add(who, 0)
        cases: dict[str, list[tuple[int, str, bool]]] = {
            "two producers": [(0, who, True), (1, other, True)],
            "with a plain batch": [(0, who, True), (1, "", False)],
            "one not added": [(0, who, True), (1, who, True)],
        }
        for pair.case, parts in cases.items():
            asked: Asked = lambda server, parts=parts: request(server, *parts)  # noqa: E731
            pair.ask(asked, version, unordered=ANY_ORDER)
            script.look(0, 1)
        script.end(who, True)
        script.look(0, 1)


def _fetch(topic: str, version: int, offset: int, isolation: int, bytes_max: int, server: Server) -> FetchRequest:
    by_id = version >= VERSION_IDS
    return fetch(
        "" if by_id else topic,
        offset,
        topic_id=server.topic_ids[topic] if by_id else bytes(16),
        isolation=isolation,
        partition_bytes_max=bytes_max,
    )


def test_interleaved_transactions(pair: Pair) -> None:
    """Three producers on one partition, ended in another order than they began, read from every offset."""
    begin_transactions(pair)
    for version in (11, VERSION_ADDS):
        if version not in pair.served(ProduceRequest):
            continue
        script = Script(pair, version)
        a, b, c = (script.begin(each) for each in "abc")
        for each in (a, b, c):
            script.add(each, 0)
        script.write(a, 0)
        script.write(b, 0, count=2)
        script.write(c, 0)
        script.write(a, 1)
        script.end(b, False)
        script.look()
        script.write(c, 1)
        script.end(a, True)
        script.look()
        script.add(b, 0)
        script.write(b, 0 if script.bumps else 2)
        script.end(c, False)
        script.look()
        script.end(b, False)
        for fetching in pair.served(FetchRequest):
            if fetching < VERSION_ISOLATION:
                continue
            for offset in range(12):
                pair.case = f"from {offset}"
                for isolation in (0, COMMITTED):
                    asked = partial(_fetch, script.topic, fetching, offset, isolation, 1 << 20)
                    pair.ask(asked, fetching, unordered=("aborted_transactions",))
                    # Kafka's answer ends in a part of a batch, and names the transaction that this part belongs to.
                    asked = partial(_fetch, script.topic, fetching, offset, isolation, 300)
                    pair.ask(asked, fetching, erased=("aborted_transactions",))
        wanted = DeleteRecordsPartition(partition_index=0, offset=5)
        topics = [DeleteRecordsTopic(name=script.topic, partitions=[wanted])]
        pair.do(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 2)
        pair.ask(fetch(script.topic, 5, isolation=COMMITTED), 12, unordered=("aborted_transactions",))


def test_markers_from_operators(pair: Pair) -> None:
    """WriteTxnMarkers as tools send it: epochs of producer and coordinator, partitions that are not there."""
    begin_transactions(pair)
    find_coordinator(pair)
    for version in pair.served(WriteTxnMarkersRequest):
        script = Script(pair, 11, f"m{version}")
        for is_open in (False, True):
            who = script.begin(f"p{version} {is_open} ")
            keep(pair, who, pair.ask(init(who), 4))

            def send(
                claim: tuple[int, int] = PRESENT,
                *,
                version: int = version,
                script: Script = script,
                who: str = who,
                **more: Any,
            ) -> None:
                partitions = more.pop("partitions", {script.topic: [0]})
                pair.ask(mark(who, partitions, claim, **more), version, unordered=MARKED)
                script.look()

            if is_open:
                script.add(who, 0)
                script.write(who, 0)
            pair.case = f"open {is_open}"
            send(partitions={script.topic: [0, 7], pair.name("unknown"): [0], "__consumer_offsets": [0]})
            send(EPOCH_BEFORE)
            send(EPOCH_AFTER, commits=True)
            send(PRESENT)
            send(OTHER_ID)
            send(EPOCH_AFTER, coordinator_epoch=1)
            send(EPOCH_AFTER)  # of the coordinator before
            send((0, 2), coordinator_epoch=1)
            if version >= 2:
                for level in (0, 1, 2, 3):
                    for epoch in (1, 2, 3):
                        pair.case = f"open {is_open}, transaction.version {level}, epoch {epoch}"
                        send((0, epoch), coordinator_epoch=1, transaction_version=level)
        pair.case = "many"

        def many(server: Server, script: Script = script, who: str = who) -> WriteTxnMarkersRequest:
            producer_id, epoch = producer(server, who)
            topics = [WritableTxnMarkerTopic(name=script.topic, partition_indexes=[1, 0])]
            return WriteTxnMarkersRequest(
                markers=[
                    WritableTxnMarker(
                        producer_id=producer_id + OTHER_ID[0] * more,  # not one that is given out later
                        producer_epoch=epoch + 5,
                        transaction_result=bool(more),
                        topics=topics,
                        coordinator_epoch=LATER_COORDINATOR,
                    )
                    for more in (0, 1, 2)
                ]
            )

        pair.ask(many, version, unordered=MARKED)
        pair.ask(WriteTxnMarkersRequest(markers=[]), version)


def test_adding_partitions_that_are_not_there(pair: Pair) -> None:
    """One that cannot be added keeps all others out."""
    begin_transactions(pair)
    find_coordinator(pair)
    topic = create_topic(pair, pair.name("t"), 2)
    for version in pair.served(AddPartitionsToTxnRequest):
        who = pair.name(f"p{version}")
        keep(pair, who, pair.ask(init(who), 4))
        cases: list[dict[str, list[int]]] = [
            {topic: [0, 7]},
            {topic: [0], pair.name("unknown"): [0]},
            {topic: [0], "__consumer_offsets": [0]},
            {"__transaction_state": [0]},
            {topic: []},
            {},
        ]
        for partitions in cases:
            for verify_only in (False, True):
                pair.case = f"{partitions} {verify_only}"
                pair.ask(
                    add(who, version, partitions, verify_only=verify_only),
                    version,
                    unordered=("results_by_topic_v3_and_below", "topic_results", "results_by_partition"),
                )
        pair.ask(describe(who), 0)
        pair.ask(add("", version, {topic: [0]}), version)
        pair.ask(end("", True), min(version, max(pair.served(EndTxnRequest))))
