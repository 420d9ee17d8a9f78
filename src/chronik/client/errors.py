"""What can go wrong between a client and a cluster. The whole tree:

    ClientError
      BadAddress         the user's: text that names no host and port
      BadProperties      the user's: a key of client.properties (`client.properties` defines it)
      Unreachable        no connection, or it ended, or no answer came in time; trying again may help
      Refused            the cluster answered with an error of Kafka's, which `kafka_error` is
        OffsetOutOfRange ... namely that a partition has no such offset, any more or yet
      QuorumLost         too few voters answer to elect a controller; no attempt can succeed until they do
      Unsupported        the broker serves no version of an API that this client knows
      BadAnswer          what came back cannot be read, or contradicts itself
      LoginFailed        the broker's part of a login was wrong
      Unsendable         the caller's: a record that has no form on the wire
      DeliveryFailed     records that a producer gave up on; its cause is one of the above
      TransactionFailed  a transaction that cannot be committed: abort it, and do it again in a new one
      Fenced             a transactional producer that is over: another one has its transactional id, or it was too slow
      Closed             used after it was closed

Every message says what was being done, where, and what to do about it. What a connection raises comes from
`wire.peer_errors`; its base is this tree's base, so a caller needs to catch one class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.wire.error_codes import ErrorCode
from chronik.wire.peer_errors import (
    BadAnswer,
    Closed,
    LoginFailed,
    PeerError,
    Refused,
    Unreachable,
    Unsupported,
    refuse,
)

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition

__all__ = [
    "BadAddress",
    "BadAnswer",
    "ClientError",
    "Closed",
    "DeliveryFailed",
    "Fenced",
    "LoginFailed",
    "OffsetOutOfRange",
    "Refused",
    "TransactionFailed",
    "Unreachable",
    "Unsendable",
    "Unsupported",
    "refuse",
]

ClientError = PeerError


class BadAddress(ClientError):
    """Text that is no list of host:port."""


class OffsetOutOfRange(Refused):
    """What stood at the offset was deleted by retention, or the log lost it; or it was never written."""

    def __init__(self, at: TopicPartition, offset: int) -> None:
        detail = f"{at} has no offset {offset}: start from its beginning or its end, or keep more with retention.ms"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"cannot read {at} at offset {offset}", detail)
        self.at = at
        self.offset = offset


class QuorumLost(ClientError):
    """Made with the words of a survey: which voters answer, and how many are needed."""

    def __str__(self) -> str:
        return f"{self.args[0]}. Start them again; `chronik cluster status` shows every node"


class Unsendable(ClientError):
    """A value does not fit its field: a timestamp beyond 64 bits, a header key that is no text."""


class DeliveryFailed(ClientError):
    """Some records were not acknowledged; whether they were written is not known unless the cause says so."""

    def __init__(self, cause: ClientError, topic: str, partition: int, record_count: int) -> None:
        super().__init__(cause, topic, partition, record_count)
        self.cause = cause
        self.topic = topic
        self.partition = partition
        self.record_count = record_count

    def __str__(self) -> str:
        records = "1 record" if self.record_count == 1 else f"{self.record_count} records"
        return f"{records} for {self.topic}-{self.partition} not delivered: {self.cause}"


class TransactionFailed(ClientError):
    """Nothing of the transaction will be seen. Abort it; its records may be sent again in a new one."""

    def __init__(self, transactional_id: str, cause: ClientError) -> None:
        super().__init__(transactional_id, cause)
        self.transactional_id = transactional_id
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"the transaction of {self.transactional_id!r} cannot be committed: {self.cause}. "
            "Abort it, then send its records again in a new transaction"
        )


class Fenced(ClientError):
    """Every further request of this producer is refused, and its transaction is aborted. Close it."""

    def __init__(self, transactional_id: str, timeout_ms: int, cause: ClientError) -> None:
        super().__init__(transactional_id, timeout_ms, cause)
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"the producer of transactional id {self.transactional_id!r} was fenced: {self.cause}. "
            "Another producer uses this id, or the transaction was open for longer than its timeout of "
            f"{self.timeout_ms} ms and was aborted. Close this producer; a new one with this id starts afresh"
        )
