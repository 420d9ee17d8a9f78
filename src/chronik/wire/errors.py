"""Errors in encoded data. The whole tree:

    WireError
      Malformed                 invalid bytes from a peer; has what was read, where, and why
        MalformedMessage        a request or response
        CorruptBatch            a wrong checksum or an invalid layout
        InvalidRecord           well-formed, but violates a rule of the format or of the topic
          InvalidTimestamp      ... about time
          NotOneBatch           ... about what a Produce request holds for a partition
        TooLarge                above a limit that the reader was given
        UnsupportedCompression  an unknown codec, or one that the requested format does not support
      Unencodable               a caller error: a value that cannot be encoded

`kafka_error` is the code to answer with. Nothing here logs or decides whether a connection ends.
"""

from __future__ import annotations

from typing import ClassVar

from chronik.wire.error_codes import ErrorCode


class WireError(Exception):
    """Base of all errors of this package."""

    kafka_error: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class Malformed(WireError):
    """Invalid bytes from a peer. `offset` counts bytes from the start of `what`."""

    kafka_error = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, what: str, offset: int, reason: str) -> None:
        super().__init__(what, offset, reason)
        self.what = what
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.what}, byte {self.offset}: {self.reason}"


class MalformedMessage(Malformed):
    """A request or response whose bytes do not follow its schema."""

    kafka_error = ErrorCode.INVALID_REQUEST

    def __init__(self, message: str, version: int, field: str, offset: int, reason: str) -> None:
        super().__init__(f"{message} v{version}, field {field}", offset, reason)
        self.args = (message, version, field, offset, reason)  # pickle and copy call the constructor with these
        self.message = message
        self.version = version
        self.field = field


class CorruptBatch(Malformed):
    """The bytes were altered: a checksum fails, or lengths contradict each other."""


class InvalidRecord(Malformed):
    """The batch arrived intact, but clients may not write it.

    `record_errors` names single records, as (index in the batch, reason), for a ProduceResponse from v8 on.
    """

    kafka_error = ErrorCode.INVALID_RECORD

    def __init__(self, what: str, offset: int, reason: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(what, offset, reason)
        self.args = (what, offset, reason, record_errors)
        self.record_errors = record_errors


class InvalidTimestamp(InvalidRecord):
    """A timestamp, or its type, that the topic does not accept."""

    kafka_error = ErrorCode.INVALID_TIMESTAMP


class NotOneBatch(InvalidRecord):
    """The produced records are not exactly one whole batch of magic 2."""


class TooLarge(Malformed):
    """More bytes than the reader may accept."""

    kafka_error = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedCompression(Malformed):
    """An unknown codec, or one that the requested record format does not support."""

    kafka_error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class Unencodable(WireError):
    """A value does not fit the wire format. Peers cannot cause this."""
