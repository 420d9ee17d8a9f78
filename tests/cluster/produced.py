"""One record sent to one node, whoever leads, and what that node says to it."""

from __future__ import annotations

from chronik.bench.frames import batch_of
from chronik.wire.compression import Codec
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.oracle.comparison import Closed, Server

PRODUCE_VERSION = 9
ACKS_ALL = -1
CLOSED = -1  # no answer at all


def ask_to_produce(server: Server, topic: str, value: bytes, *, timeout_ms: int = 60_000) -> None:
    """To the first partition, for all replicas to keep."""
    data = PartitionProduceData(index=0, records=batch_of([value], 0, Codec.NONE))
    named = TopicProduceData(name=topic, partition_data=[data])
    server.send(ProduceRequest(acks=ACKS_ALL, timeout_ms=timeout_ms, topic_data=[named]), PRODUCE_VERSION)


def told(server: Server) -> int:
    """An error code; 0 acknowledges."""
    try:
        answer = server.receive(ProduceResponse, PRODUCE_VERSION).message
    except Closed:
        return CLOSED
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    return int(partition.error_code)
