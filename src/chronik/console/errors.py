"""What the API answers when it does not answer what was asked: one class, one form, stable codes.

Every code has one HTTP status. `of` turns what the client raises into it.
"""

from __future__ import annotations

from typing import Any, Final

from chronik.client.errors import BadAnswer, ClientError, OffsetOutOfRange, QuorumLost, Refused, Unreachable
from chronik.wire.error_codes import ErrorCode

STATUSES: Final = {
    "BAD_PARAMETER": 400,
    "BAD_BODY": 400,
    "BAD_CURSOR": 400,
    "BAD_QUERY": 400,
    "BAD_HOST": 400,
    "SIGNED_OUT": 401,
    "LOGIN_FAILED": 401,
    "READ_ONLY": 403,
    "FORBIDDEN": 403,
    "BAD_ORIGIN": 403,
    "HEADER_MISSING": 403,
    "NOT_FOUND": 404,
    "TOPIC_NOT_FOUND": 404,
    "PARTITION_NOT_FOUND": 404,
    "RECORD_NOT_FOUND": 404,
    "GROUP_NOT_FOUND": 404,
    "NODE_NOT_FOUND": 404,
    "PIPELINE_NOT_FOUND": 404,
    "TABLE_NOT_FOUND": 404,
    "RUN_NOT_FOUND": 404,
    "BAD_METHOD": 405,
    "REFUSED": 409,
    "CANCELLED": 409,
    "TOO_LARGE": 413,
    "NOT_JSON": 415,
    "BUSY": 429,
    "INTERNAL": 500,
    "EXTRA_MISSING": 501,
    "UNREACHABLE": 503,
    "NO_CONTROLLER": 503,
    "TIMED_OUT": 504,
}
FORBIDDEN: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
NOT_FOUND: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "TOPIC_NOT_FOUND",
    ErrorCode.UNKNOWN_TOPIC_ID: "TOPIC_NOT_FOUND",
    ErrorCode.GROUP_ID_NOT_FOUND: "GROUP_NOT_FOUND",
}


class ConsoleError(Exception):
    """`code` is one of STATUSES. `more` are further fields of the error object."""

    def __init__(self, code: str, message: str, hint: str = "", **more: Any) -> None:
        super().__init__(code, message, hint)
        self.code, self.message, self.hint, self.more = code, message, hint, more

    @property
    def status(self) -> int:
        return STATUSES[self.code]

    def document(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint, **self.more}}


def of(fault: ClientError) -> ConsoleError:
    match fault:
        case OffsetOutOfRange():
            return ConsoleError("RECORD_NOT_FOUND", str(fault))
        case Refused() if fault.kafka_error in FORBIDDEN:
            return ConsoleError("FORBIDDEN", str(fault), "ask an administrator for an access rule: chronik acl explain")
        case Refused():
            return ConsoleError(NOT_FOUND.get(fault.kafka_error, "REFUSED"), str(fault))
        case QuorumLost():
            return ConsoleError("NO_CONTROLLER", str(fault))
        case Unreachable():
            return ConsoleError("UNREACHABLE", str(fault))
        case BadAnswer():
            return ConsoleError("REFUSED", str(fault))
    return ConsoleError("REFUSED", str(fault))
