"""The errors of replicas that cannot serve a request. Each has the Kafka error code for clients.

ReplicationError
  NotLeader, FencedEpoch, UnknownEpoch                      retry with newer metadata, or another broker
  NotEnoughReplicas, TooFewReplicasAfterAppend, TimedOut    too few replicas keep up with the leader
  NotYetAvailable                                           this replica does not know yet whether it is committed
  NotCompared                                               this leader does not know yet whether it lacks records
  LeaderLost                                                a follower's connection to its leader ended
"""

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


class TooFewReplicasAfterAppend(ReplicationError):
    """The record is written and may be lost: only the leader and too few other replicas are known to have it."""

    kafka_error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def __init__(self, name: str, isr: tuple[int, ...], needed: int) -> None:
        super().__init__(
            f"{name} was written, but its in-sync replicas are {list(isr)} now, min.insync.replicas asks for {needed}"
        )


class TimedOut(ReplicationError):
    """The record is written and may be lost: not all in-sync replicas confirmed it in time."""

    kafka_error = ErrorCode.REQUEST_TIMED_OUT

    def __init__(self, name: str, isr: tuple[int, ...]) -> None:
        super().__init__(f"{name} was written, but not all of its in-sync replicas {list(isr)} had it in time")


class NotYetAvailable(ReplicationError):
    kafka_error = ErrorCode.OFFSET_NOT_AVAILABLE

    def __init__(self, name: str, high_watermark: int) -> None:
        super().__init__(f"{name} is known to be committed up to {high_watermark} here as yet: try again")


class NotCompared(ReplicationError):
    kafka_error = ErrorCode.NOT_ENOUGH_REPLICAS

    def __init__(self, name: str, others: list[int]) -> None:
        super().__init__(
            f"the leader of {name} has just started, and compares its log with those of replicas {others}: try again"
        )


class LeaderLost(ReplicationError):
    """A follower's connection to its leader ended; it reconnects."""

    kafka_error = ErrorCode.NETWORK_EXCEPTION
