"""The errors of storage.

StorageError
  OffsetOutOfRange, RecordTooLarge, BatchTooLarge, InvalidRecord        client error
  OutOfOrderSequence, InvalidProducerEpoch, CoordinatorFenced,
  InvalidTransactionState                                               a producer's state disagrees
  LogFull                                                               no space or descriptor; retry later
  CorruptSegment, ForeignDirectory                                      one log is damaged; other replicas may have it
  DataMissing, CorruptJournal, CorruptCheckpoint, CorruptManifest       it is unknown what was acknowledged
  StorageFailed                                                         a sync failed; the node must stop
"""

from __future__ import annotations

from chronik.wire.error_codes import ErrorCode
from chronik.wire.uuids import uuid_text


class StorageError(Exception):
    kafka_error = ErrorCode.KAFKA_STORAGE_ERROR


class OffsetOutOfRange(StorageError):
    kafka_error = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"offset {offset} is outside {start}..{end}: reset the consumer's position, or keep more with retention.ms"
        )


class RecordTooLarge(StorageError):
    kafka_error = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, size_bytes: int, max_message_bytes: int) -> None:
        super().__init__(f"a batch of {size_bytes} bytes exceeds max.message.bytes={max_message_bytes} of the topic")


class BatchTooLarge(StorageError):
    kafka_error = ErrorCode.RECORD_LIST_TOO_LARGE

    def __init__(self, size_bytes: int, segment_bytes: int) -> None:
        super().__init__(f"a batch of {size_bytes} bytes does not fit into a segment: segment.bytes={segment_bytes}")


class InvalidRecord(StorageError):
    kafka_error = ErrorCode.INVALID_RECORD


class OutOfOrderSequence(StorageError):
    kafka_error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def __init__(self, producer_id: int, sequence: int, expected: int) -> None:
        super().__init__(f"producer {producer_id} sent sequence {sequence} where {expected} was expected")


class InvalidProducerEpoch(StorageError):
    kafka_error = ErrorCode.INVALID_PRODUCER_EPOCH

    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(f"producer {producer_id} has epoch {epoch}, but a later instance has epoch {current}")


class CoordinatorFenced(StorageError):
    kafka_error = ErrorCode.TRANSACTION_COORDINATOR_FENCED

    def __init__(self, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(
            f"a marker of producer {producer_id} comes from coordinator epoch {epoch}, but epoch {current} has written"
        )


class InvalidTransactionState(StorageError):
    kafka_error = ErrorCode.INVALID_TXN_STATE


class LogFull(StorageError):
    """No space left, or no file descriptor: nothing was changed. Retry when there is space or a descriptor."""


class CorruptSegment(StorageError):
    """One log lacks records that it should have from `offset` on. It is not served from there.

    If damaged bytes supplied the offset, it may be wrong; `lost_from` is always at or before the damage.
    """

    def __init__(self, path: str, position: int, offset: int, reason: str, lost_from: int | None = None) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}, where offset {offset} should be ({reason}): records from there on "
            "are not served here; they are copied from another in-sync replica if there is one, else restore the file"
        )
        self.path, self.position, self.offset = path, position, offset
        self.lost_from = offset if lost_from is None else lost_from


class ForeignDirectory(CorruptSegment):
    """The directory of a log holds another partition's files: none of them is read, changed or removed."""

    def __init__(self, path: str, offset: int, expected: str, found: str) -> None:
        super().__init__(path, 0, offset, f"it holds {found}, not {expected}")


class CannotRecover(StorageError):
    """The node cannot determine what it has acknowledged, so it must not serve."""


class DataMissing(CannotRecover):
    def __init__(self, directory: str, name: str, reason: str) -> None:
        super().__init__(
            f"{directory}/{name} is not what this node wrote ({reason}): restore it, or run "
            f"`chronik storage repair {directory}` to keep what the segments hold and copy the rest from other nodes"
        )


class ForeignFile(CannotRecover):
    """A journal or checkpoint of another node, or of this directory before it was repaired."""

    def __init__(self, path: str, found: bytes, expected: bytes) -> None:
        directory = path.rpartition("/")[0].removesuffix("/journal")
        super().__init__(
            f"{path} was written for the data directory with the id {uuid_text(found)}, not for this one with "
            f"{uuid_text(expected)}: put back the file that was here, or run `chronik storage repair "
            f"{directory}` to keep what the segments hold and copy the rest from other nodes"
        )


class CorruptJournal(CannotRecover):
    def __init__(self, path: str, position: int) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}, below what had been synced: restore it, or run "
            f"`chronik storage repair {path.rpartition('/journal/')[0]}` to keep what the segments hold and copy the "
            "rest from other nodes"
        )
        self.path, self.position = path, position


class CorruptCheckpoint(CannotRecover):
    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is damaged: restore it, or run `chronik storage repair {path.rpartition('/')[0]}` to keep what "
            "the segments hold and copy the rest from other nodes"
        )


class CorruptManifest(CannotRecover):
    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is damaged: restore it, or run `chronik storage repair {path.rpartition('/')[0]}` to keep what "
            "the segments hold and copy the rest from other nodes"
        )


class StorageFailed(StorageError):
    """A sync failed: the kernel may have dropped data that cannot be written again. Only a restart helps."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"the disk failed ({cause}): this node stops; check the disk, then restart it")
