"""The errors of coordinators, and the error codes that clients get for failed writes.

CoordinatorError
├── MemberRefused    the member is not in the group, or has another epoch
├── NotCoordinator   this node does not lead the partition of this key
└── Loading          this node leads it, and is still replaying its log
"""

from __future__ import annotations

from chronik.wire.error_codes import ErrorCode


class CoordinatorError(Exception):
    """Base of this package's errors."""

    kafka_error = ErrorCode.UNKNOWN_SERVER_ERROR


class MemberRefused(CoordinatorError):
    def __init__(self, error: ErrorCode, group_id: str) -> None:
        super().__init__(f"the member may not read offsets of group {group_id}: {error.name}")
        self.kafka_error = error


class NotCoordinator(CoordinatorError):
    kafka_error = ErrorCode.NOT_COORDINATOR

    def __init__(self, topic: str, index: int) -> None:
        super().__init__(f"{topic}-{index} is not led by this broker: find the coordinator again")


class Loading(CoordinatorError):
    kafka_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def __init__(self, topic: str, index: int) -> None:
        super().__init__(f"the state in {topic}-{index} is still being loaded: try again shortly")


# Clients do not know the partition behind a coordinator. So its errors are mapped to errors that clients can handle:
# retry, look up the coordinator again, or give up.
_TOLD_AS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def told_to_clients(error: ErrorCode) -> ErrorCode:
    return _TOLD_AS.get(error, error)
