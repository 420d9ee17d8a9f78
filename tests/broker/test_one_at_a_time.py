"""Requests about a transaction that a client sends without waiting are processed in sequence."""

from __future__ import annotations

from chronik.testing import Cluster
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from chronik.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from chronik.wire.messages.end_txn import EndTxnResponse
from chronik.wire.messages.init_producer_id import InitProducerIdResponse
from tests.oracle.comparison import Server
from tests.oracle.transacting import LOADING, add, add_offsets, end, find_coordinator_of, init

WHO = "sends all at once"


def test_a_client_that_sends_all_at_once_is_told_no_error() -> None:
    """Overlapping, all but the first would be told CONCURRENT_TRANSACTIONS, and librdkafka would wait 20 ms or more."""
    with Cluster(settings={"num.partitions": "2"}) as cluster:
        server = Server("chronik", cluster.port)
        find_coordinator_of(server, WHO)
        answer = None
        while answer is None or answer.error_code in LOADING:
            server.send(init(WHO)(server), 4)
            answer = server.receive(InitProducerIdResponse, 4).message
        server.kept[f"producer {WHO}"] = answer.producer_id, answer.producer_epoch
        server.send(add_offsets(WHO, "group")(server), 1)
        server.send(add(WHO, 1, {"__unknown": [0]})(server), 1)
        server.send(add_offsets(WHO, "another group")(server), 1)
        server.send(end(WHO, commits=False)(server), 1)
        assert server.receive(AddOffsetsToTxnResponse, 1).message.error_code == 0
        refused = server.receive(AddPartitionsToTxnResponse, 1).message.results_by_topic_v3_and_below
        assert refused[0].results_by_partition[0].partition_error_code == 3  # UNKNOWN_TOPIC_OR_PARTITION
        assert server.receive(AddOffsetsToTxnResponse, 1).message.error_code == 0
        assert server.receive(EndTxnResponse, 1).message.error_code == 0
        server.close_all()
