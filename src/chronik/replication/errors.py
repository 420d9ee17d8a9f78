"""What a replica answers when it cannot serve. Each carries the Kafka error a client is given."""

from __future__ import annotations

from chronik.wire.error_codes import ErrorCode


class ReplicationError(Exception):
    """Base of this package's errors."""

    kafka_error = ErrorCode.UNKNOWN_SERVER_ERROR


class NotLeader(ReplicationError):
    kafka_error = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __init__(self, name: str, leader_id: int) -> None:
        super().__init__(f"{name} is led by broker {leader_id}: refresh metadata and ask there")


class FencedEpoch(ReplicationError):
    kafka_error = ErrorCode.FENCED_LEADER_EPOCH

    def __init__(self, name: str, asked: int, current: int) -> None:
        super().__init__(f"{name}: the request is of leader epoch {asked}, now is {current}: refresh metadata")


class UnknownEpoch(ReplicationError):
    kafka_error = ErrorCode.UNKNOWN_LEADER_EPOCH

    def __init__(self, name: str, asked: int, current: int) -> None:
        super().__init__(f"{name}: the request is of leader epoch {asked}, here is {current} as yet: try again")


class NotEnoughReplicas(ReplicationError):
    kafka_error = ErrorCode.NOT_ENOUGH_REPLICAS

    def __init__(self, name: str, isr: tuple[int, ...], needed: int) -> None:
        super().__init__(f"{name} has in-sync replicas {list(isr)}, min.insync.replicas asks for {needed}")
