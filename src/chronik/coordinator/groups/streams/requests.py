"""What a StreamsGroupHeartbeat must look like, and the answers to it. Never decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from chronik.coordinator.groups.consumer.requests import refuse
from chronik.coordinator.groups.streams.member import JOINS, LEAVES_FOR_A_WHILE, Member
from chronik.coordinator.groups.streams.tasks import NOTHING, Tasks, TaskSet, task_set
from chronik.coordinator.groups.streams.topology import Part, Status
from chronik.metadata.image import Image
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages import streams_group_heartbeat as answering
from chronik.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

STREAMS_FEATURE: Final = "streams.version"
STREAMS_GROUPS_SINCE: Final = 1  # the level of the feature that allows them


def is_served(image: Image) -> bool:
    return image.features.get(STREAMS_FEATURE, 0) >= STREAMS_GROUPS_SINCE


def require_valid(request: StreamsGroupHeartbeatRequest) -> None:
    """What Kafka 4.3 does not support is refused first."""
    _refuse_unsupported(request)
    for value, name in (
        (request.member_id, "member_id"),
        (request.group_id, "group_id"),
        (request.rack_id, "rack_id"),
    ):
        if value is not None and not value.strip():
            refuse(ErrorCode.INVALID_REQUEST, f"{name} is empty")
    epoch, topology = request.member_epoch, request.topology
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if epoch == JOINS:
        if request.rebalance_timeout_ms == -1:
            refuse(ErrorCode.INVALID_REQUEST, "a member that joins must send rebalance_timeout_ms")
        if any(each is None or each for each in owned):
            refuse(
                ErrorCode.INVALID_REQUEST, "a member that joins has no tasks, and must send that in three empty lists"
            )
        if topology is None:
            refuse(ErrorCode.INVALID_REQUEST, "a member that joins must send its topology")
        for subtopology in topology.subtopologies:
            for topic in subtopology.state_changelog_topics:
                if topic.partitions:
                    message = f"changelog topic {topic.name} must not name a number of partitions: it follows"
                    refuse(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    elif epoch == LEAVES_FOR_A_WHILE:
        refuse(ErrorCode.INVALID_REQUEST, "only static members leave for a while")
    elif epoch < LEAVES_FOR_A_WHILE:
        refuse(ErrorCode.INVALID_REQUEST, f"member epoch {epoch} has no meaning")
    if any(each is not None for each in owned) and any(each is None for each in owned):
        refuse(ErrorCode.INVALID_REQUEST, "name the tasks of all roles, or of none")
    if epoch != JOINS and topology is not None:
        refuse(ErrorCode.INVALID_REQUEST, "only a member that joins may send a topology")


def _refuse_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    for given, what in (
        (request.instance_id is not None, "static members"),
        (request.task_offsets is not None, "task_offsets"),
        (request.task_end_offsets is not None, "task_end_offsets"),
        (bool(request.warmup_tasks), "warm-up tasks"),
    ):
        if given:
            refuse(ErrorCode.INVALID_REQUEST, f"{what} are not supported in streams groups")
    if request.topology and any(each.source_topic_regex for each in request.topology.subtopologies):
        refuse(ErrorCode.INVALID_REQUEST, "regular expressions for source topics are not supported in streams groups")


def named_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """What the client says that it has."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(task_set(request.active_tasks), task_set(request.standby_tasks), task_set(request.warmup_tasks))


def require_epoch(member: Member, epoch: int, named: Tasks | None) -> None:
    """A member that missed the answer which raised its epoch comes with the one before, and has nothing else."""
    if epoch in (JOINS, member.member_epoch):
        return
    is_previous = member.previous_epoch == epoch < member.member_epoch
    if is_previous and named is not None and named.is_within(member.assigned):
        return
    refuse(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member epoch {epoch} is not {member.member_epoch}: give up all tasks, and join again with epoch 0",
    )


def require_tasks(parts: Mapping[str, Part], named: Tasks | None) -> None:
    for role in named or NOTHING:
        for name, partitions in role.items():
            part = parts.get(name)
            if part is None:
                refuse(ErrorCode.INVALID_REQUEST, f"subtopology {name} is not in the topology")
            wrong = [each for each in partitions if not 0 <= each < part.task_count]
            if wrong:
                message = f"task {min(wrong)} of subtopology {name}: there are {part.task_count}"
                refuse(ErrorCode.INVALID_REQUEST, message)


def told(member: Member, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str) -> Member:
    """The member as it describes itself. What the request leaves out stays as it was."""
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        tags=member.tags if tags is None else tuple(sorted({tag.key: tag.value for tag in tags}.items())),
        client_id=client_id,
        client_host=client_host,
    )


def answer(
    member: Member, interval_ms: int, statuses: Iterable[Status], *, with_tasks: bool
) -> StreamsGroupHeartbeatResponse:
    response = _blank(ErrorCode.NONE)
    response.member_id, response.member_epoch = member.member_id, member.member_epoch
    response.heartbeat_interval_ms = interval_ms
    response.status = [answering.Status(status_code=each.code, status_detail=each.detail) for each in statuses]
    if with_tasks:
        response.active_tasks = _task_ids({name: frozenset(parts) for name, parts in member.assigned.active.items()})
        response.standby_tasks = _task_ids(member.assigned.standby)
        response.warmup_tasks = _task_ids(member.assigned.warmup)
    return response


def refused(error: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    response = _blank(error)
    response.error_message = message or error.message
    return response


def left(member_id: str, epoch: int) -> StreamsGroupHeartbeatResponse:
    response = _blank(ErrorCode.NONE)
    response.member_id, response.member_epoch = member_id, epoch
    return response


def _blank(error: ErrorCode) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        member_id="",
        member_epoch=0,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )


def _task_ids(tasks: TaskSet) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(parts)) for name, parts in sorted(tasks.items())]
