"""One Produce request: batches of many partitions that one node leads, and the result for each.

Never retries and never raises for a partition: a result is Acknowledged, or the error that the node returned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from chronik.client.batching import Acknowledged
from chronik.client.errors import BadAnswer, ClientError, Refused, Unsendable
from chronik.client.leaders import by_topic
from chronik.client.topology import TopicPartition
from chronik.runtime.invariants import check
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Unencodable
from chronik.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chronik.wire.notation import VERSION_MAX, ZERO_UUID

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

BatchResult = Acknowledged | ClientError

REPLICAS_TIMEOUT_MS: Final = 30_000  # the longest time that a broker may wait for replicas
ANSWER_GRACE_MS: Final = 500  # minimum time for the answer itself, after the broker has stopped waiting
ANSWER_GRACE_MS_MAX: Final = 5_000
NO_ACKS: Final = 0
MAGIC_2: Final = 3  # the first version with record batches
ZSTD: Final = 7  # the first version with zstd
ADDS: Final = 12  # the first version in which a transactional batch adds its partition
NAMES: Final = 12  # the last version with topic names; later ones have topic ids


class Sendable(Protocol):
    """A batch: `batching.Batch`, or an already encoded one."""

    def encoded(self, codec: Codec, level: int | None, *, is_transactional: bool = False) -> bytes:
        """Raises Unencodable."""


class Transaction(Protocol):
    """The part of a transaction that a request needs."""

    transactional_id: str

    @property
    def adds_by_writing(self) -> bool:
        """Whether writing to a partition adds it to the transaction."""

    async def include(self, partitions: Collection[TopicPartition]) -> None:
        """Returns when the partitions are in the transaction, or when writing to them will add them."""


async def produce(
    cluster: ClusterClient,
    node_id: int,
    batches: Mapping[TopicPartition, Sendable],
    *,
    acks: int,
    codec: Codec,
    level: int | None,
    timeout_ms: int = REPLICAS_TIMEOUT_MS,
    transaction: Transaction | None = None,
) -> dict[TopicPartition, BatchResult]:
    """Sends one batch per partition. Raises if the whole request failed.

    `timeout_ms` is the time until the caller gives up. The broker waits for replicas no longer than that. Batches of a
    `transaction` are marked as such, and sent once their partitions are in it.
    """
    replicas_timeout_ms = max(1, min(REPLICAS_TIMEOUT_MS, timeout_ms))
    grace_ms = min(ANSWER_GRACE_MS_MAX, max(ANSWER_GRACE_MS, timeout_ms - replicas_timeout_ms))
    connection = await cluster.to_node(node_id)
    answers: dict[TopicPartition, BatchResult] = {}
    encoded: dict[TopicPartition, bytes] = {}
    for at, batch in batches.items():
        try:
            encoded[at] = batch.encoded(codec, level, is_transactional=transaction is not None)
        except Unencodable as fault:
            answers[at] = Unsendable(f"a record cannot be written: {fault}")
    check(
        len(encoded) + len(answers) == len(batches),
        "27 every batch of a request gets an outcome",
        batches=len(batches),
        encoded=len(encoded),
        refused=len(answers),
    )
    if not encoded:
        return answers
    if transaction is not None:
        await transaction.include(encoded.keys())
    grouped = by_topic(encoded)
    topics = {name: cluster.topology.topics.get(name) for name in grouped}
    ids = {name: topic.topic_id if topic is not None else ZERO_UUID for name, topic in topics.items()}
    request = ProduceRequest(
        transactional_id=None if transaction is None else transaction.transactional_id,
        acks=acks,
        timeout_ms=replicas_timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=ids[name],
                partition_data=[PartitionProduceData(index=at.partition, records=encoded[at]) for at in them],
            )
            for name, them in grouped.items()
        ],
    )
    version_min = ZSTD if codec is Codec.ZSTD else MAGIC_2
    version_max = NAMES if ZERO_UUID in ids.values() else VERSION_MAX
    if transaction is not None:
        version_min = ADDS if transaction.adds_by_writing else version_min
        version_max = version_max if transaction.adds_by_writing else ADDS - 1
    if acks == NO_ACKS:
        await connection.tell(request, version_max=version_max)
        return answers | dict.fromkeys(encoded, Acknowledged(-1, -1))
    response = await connection.ask(
        request,
        ProduceResponse,
        version_min=version_min,
        version_max=version_max,
        timeout_ms=replicas_timeout_ms + grace_ms,
    )
    names = {topic_id: name for name, topic_id in ids.items()}
    answers |= {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), told.index): _answer(told)
        for topic in response.responses
        for told in topic.partition_responses
    }
    missing = BadAnswer(f"broker {node_id} omitted some of the partitions in its response")
    return {at: answers.get(at, missing) for at in batches} if batches.keys() - answers.keys() else answers


def _answer(told: PartitionProduceResponse) -> BatchResult:
    code = ErrorCode.of(told.error_code)
    # A duplicate was written before, but its first answer was lost.
    if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Acknowledged(told.base_offset, told.log_append_time_ms)
    details = [told.error_message, *(each.batch_index_error_message for each in told.record_errors[:1])]
    return Refused(code, "the broker refused the records", next((each for each in details if each), None))
