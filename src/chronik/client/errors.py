"""The errors between a client and a cluster. The whole tree:

    ClientError
      BadAddress         user error: text without a valid host and port
      BadProperties      user error: a key of client.properties (`client.properties` defines it)
      Unreachable        no connection, or it ended, or no answer in time; retrying may help
      Refused            the cluster answered with a Kafka error, `kafka_error`
        OffsetOutOfRange the partition does not have this offset, or no longer has it
      QuorumLost         too few voters answer to elect a controller; no attempt can succeed until they do
      Unsupported        the broker serves no version of an API that this client knows
      BadAnswer          the answer cannot be read, or contradicts itself
      LoginFailed        the broker failed to authenticate itself
      Unsendable         caller error: a record that cannot be encoded
      DeliveryFailed     records that a producer gave up; the cause is one of the above
      TransactionFailed  the transaction cannot be committed: abort it and repeat it
      Fenced             the transactional producer cannot continue: its id was taken over, or it was too slow
      Closed             used after it was closed

Every message says what was attempted, where, and what to do. Connections raise the errors of `wire.peer_errors`; their
base class is this tree's base class, so callers need to catch only one class.
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
    """The text is not a list of host:port."""


class OffsetOutOfRange(Refused):
    """Retention deleted the record at the offset, or the log lost it, or it was never written."""

    def __init__(self, at: TopicPartition, offset: int) -> None:
        detail = f"{at} has no offset {offset}: start from its beginning or its end, or keep more with retention.ms"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"cannot read {at} at offset {offset}", detail)
        self.at = at
        self.offset = offset


class QuorumLost(ClientError):
    """Created with the text of a survey: which voters answer, and how many are needed."""

    def __str__(self) -> str:
        return f"{self.args[0]}. Start them again; `chronik cluster status` shows every node"


class Unsendable(ClientError):
    """A value does not fit its field: a timestamp beyond 64 bits, a header key that is not text."""


class DeliveryFailed(ClientError):
    """Some records were not acknowledged; unless the cause says so, whether they were written is unknown."""

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
    """No record of the transaction will be visible. Abort it; its records may be sent again in a new one."""

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
    """Every further request of this producer will be refused, and its transaction is aborted. Close the producer."""

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
