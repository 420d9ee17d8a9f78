"""Maps a transaction coordinator's errors to errors for producers, for refused batches and offset commits.

Clients of these two APIs do not know all errors of a coordinator; which ones they know depends on the version.
"""

from __future__ import annotations

from typing import Final

from chronik.wire.error_codes import ErrorCode

# Versions of Produce and of TxnOffsetCommit from which clients know TRANSACTION_ABORTABLE, and from which a request
# adds its partitions to the transaction (transaction.version 2). In earlier versions the client has added them, and the
# leader verifies this.
PRODUCE_ABORTABLE_SINCE, PRODUCE_ADDS_SINCE = 11, 12
OFFSETS_ABORTABLE_SINCE, OFFSETS_ADDS_SINCE = 4, 5

# After NOT_ENOUGH_REPLICAS, clients of all versions retry a batch without refreshing their metadata.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def told_to_producer(error: ErrorCode, version: int) -> ErrorCode:
    """The error for Produce."""
    told = _known(error, knows_abortable=version >= PRODUCE_ABORTABLE_SINCE)
    if told in _TRY_AGAIN or (told is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_SINCE):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return told


def told_to_offset_committer(error: ErrorCode, version: int) -> ErrorCode:
    """The error for TxnOffsetCommit."""
    told = _known(error, knows_abortable=version >= OFFSETS_ABORTABLE_SINCE)
    # The client retries without looking up the group's coordinator again.
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if told is ErrorCode.NETWORK_EXCEPTION else told


def _known(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
