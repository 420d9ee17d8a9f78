"""What can be wrong with bytes. The whole tree:

    WireError
      Malformed                 a peer's bytes are wrong; carries what was read, where, and why
        MalformedMessage        a request or response
        CorruptBatch            a checksum or a layout that does not hold
        InvalidRecord           well-formed, but against a rule of the format or of the topic
          InvalidTimestamp      ... about time
          NotOneBatch           ... about what a Produce request holds for a partition
        TooLarge                above a limit that the reader was given
        UnsupportedCompression  a codec that does not exist, or that the asked-for format cannot carry
      Unencodable               our own misuse: a value that has no bytes

`kafka_error` is the code to answer with. Nothing here logs or decides whether a connection ends.
"""

from __future__ import annotations

from typing import ClassVar

from chronik.wire.error_codes import ErrorCode


class WireError(Exception):
    """Base of all errors of this package."""

    kafka_error: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class Malformed(WireError):
    """A peer's bytes are wrong. `offset` counts bytes from the start of `what`."""

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
        self.args = (message, version, field, offset, reason)  # what pickle and copy call the constructor with
        self.message = message
        self.version = version
        self.field = field


class CorruptBatch(Malformed):
    """The bytes are not those that were written: a checksum fails, or lengths contradict each other."""


class InvalidRecord(Malformed):
    """The batch was transmitted well, but a client may not write it.

    `record_errors` names single records, as (index in the batch, why), for a ProduceResponse from v8 on.
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
    """Produced records that are not exactly one whole batch of magic 2."""


class TooLarge(Malformed):
    """More bytes than the reader was allowed to take."""

    kafka_error = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedCompression(Malformed):
    """No such codec, or none that the asked-for record format can carry."""

    kafka_error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class Unencodable(WireError):
    """A value of ours does not fit the wire format. Nothing a peer sends raises this."""
