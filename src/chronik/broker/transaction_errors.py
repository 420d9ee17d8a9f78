"""What a producer is told when the coordinator of its transaction does not let a batch or an offset commit pass.

A coordinator's words are not all known to the clients of the two APIs that ask it, and depend on what a version knows.
"""

from __future__ import annotations

from typing import Final

from chronik.wire.error_codes import ErrorCode

# Of Produce and of TxnOffsetCommit: from here on clients know TRANSACTION_ABORTABLE; from here on a request adds its
# partitions to the transaction (transaction.version 2). Before, the client has added them, and the leader verifies it.
PRODUCE_ABORTABLE_SINCE, PRODUCE_ADDS_SINCE = 11, 12
OFFSETS_ABORTABLE_SINCE, OFFSETS_ADDS_SINCE = 4, 5

# Clients of all versions send a batch again after NOT_ENOUGH_REPLICAS, and do not refresh their metadata for it.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def told_to_producer(error: ErrorCode, version: int) -> ErrorCode:
    """In the words of Produce."""
    told = _known(error, knows_abortable=version >= PRODUCE_ABORTABLE_SINCE)
    if told in _TRY_AGAIN or (told is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_SINCE):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return told


def told_to_offset_committer(error: ErrorCode, version: int) -> ErrorCode:
    """In the words of TxnOffsetCommit."""
    told = _known(error, knows_abortable=version >= OFFSETS_ABORTABLE_SINCE)
    # The client sends the request again, and need not look for the group's coordinator for it.
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if told is ErrorCode.NETWORK_EXCEPTION else told


def _known(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
