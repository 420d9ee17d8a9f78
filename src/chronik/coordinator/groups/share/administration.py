"""What operators change about a share group without members: where it begins to read, and whether it has state at all.

Each change is written down first, then carried out at the share coordinator, then written down as done. If it ends in
between, the group's record still says so, and the same request carries it out again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from chronik.coordinator.groups.consumer.requests import Refused, refuse
from chronik.coordinator.groups.share import records
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.protocol import ShareProtocol
from chronik.coordinator.groups.share.state_partitions import OfTopic
from chronik.coordinator.share.persister import Initialization, Partition
from chronik.metadata.image import Topic
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

NOTHING_TO_DELETE: Final = "There is no offset information to delete."
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- AlterShareGroupOffsets


async def alter_offsets(share: ShareProtocol, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    """Makes the group if it does not exist. Leaders that still read for the group are fenced by the state epoch, which
    is the group's: it has risen since there were members."""
    async with share.exclusive(request.group_id):
        return await _alter_offsets(share, request)


async def _alter_offsets(
    share: ShareProtocol, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    try:
        _require_serving(share)
        if not request.group_id:
            refuse(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.message)
        group = share.found_or_made(request.group_id)
        _require_empty(group)
        wanted: dict[bytes, OfTopic] = {}
        initializations: list[Initialization] = []
        for asked in request.topics:
            topic = share.topics.image.topic_named(asked.topic_name)
            offsets = {} if topic is None else _offsets_of(asked, topic)
            if topic is not None and offsets:
                wanted[topic.topic_id] = OfTopic(topic.name, frozenset(offsets))
                initializations += [
                    Initialization(topic.topic_id, index, group.epoch, offset) for index, offset in offsets.items()
                ]
        errors: Mapping[Partition, ErrorCode] = {}
        if wanted:
            share.ask_about(request.group_id, wanted)
            try:
                kept = group.state_partitions.begin(wanted)
                _require(await share.written([records.state_partitions_record(request.group_id, kept)]))
                errors = await share.persister.initialize(request.group_id, initializations)
                _require_serving(share)
                if not any(errors.values()):
                    _require(await share.note_initialized(request.group_id, wanted, errors))
            finally:
                share.answered(request.group_id, wanted)
    except Refused as fault:
        return alter_refused(fault.error, str(fault))
    return AlterShareGroupOffsetsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        responses=[
            _altered(asked, share.topics.image.topic_named(asked.topic_name), errors) for asked in request.topics
        ],
    )


def alter_refused(error: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=error, error_message=message or error.message, responses=[]
    )


def _offsets_of(asked: AlterShareGroupOffsetsRequestTopic, topic: Topic) -> dict[int, int]:
    count = len(topic.partitions)
    return {each.partition_index: each.start_offset for each in asked.partitions if 0 <= each.partition_index < count}


def _altered(
    asked: AlterShareGroupOffsetsRequestTopic, topic: Topic | None, errors: Mapping[Partition, ErrorCode]
) -> AlterShareGroupOffsetsResponseTopic:
    topic_id = ZERO_UUID if topic is None else topic.topic_id
    partitions = []
    for each in asked.partitions:
        error = errors.get((topic_id, each.partition_index), UNKNOWN)
        message = None if error is ErrorCode.NONE else error.message
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=error, error_message=message
            )
        )
    return AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions)


# --- DeleteShareGroupOffsets


async def delete_offsets(
    share: ShareProtocol, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    async with share.exclusive(request.group_id):
        return await _delete_offsets(share, request)


async def _delete_offsets(
    share: ShareProtocol, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    try:
        _require_serving(share)
        if not request.group_id:
            refuse(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.message)
        group = share.group(request.group_id)
        _require_empty(group)
        found: dict[str, Topic] = {}
        for asked in request.topics:
            topic = share.topics.image.topic_named(asked.topic_name)
            kept = group.state_partitions
            if topic is not None and (topic.topic_id in kept.initialized or topic.topic_id in kept.deleting):
                found[asked.topic_name] = topic
        errors = await _delete_state(share, group, list(found.values())) if found else {}
    except Refused as fault:
        return delete_refused(fault.error, str(fault))
    return DeleteShareGroupOffsetsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        responses=[
            _deleted(asked.topic_name, share.topics.image.topic_named(asked.topic_name), found, errors)
            for asked in request.topics
        ],
    )


def delete_refused(error: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=error, error_message=message or error.message, responses=[]
    )


def _deleted(
    name: str, topic: Topic | None, found: Mapping[str, Topic], errors: Mapping[bytes, ErrorCode]
) -> DeleteShareGroupOffsetsResponseTopic:
    if name not in found:
        message = UNKNOWN.message if topic is None else NOTHING_TO_DELETE
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=ZERO_UUID, error_code=UNKNOWN, error_message=message
        )
    topic_id = found[name].topic_id
    error = errors.get(topic_id, ErrorCode.NONE)
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=error,
        error_message=None if error is ErrorCode.NONE else error.message,
    )


# --- the end of a group


async def delete_all_state(share: ShareProtocol, group_id: str) -> ErrorCode:
    """Before the group's own records are removed: what nobody knows of would stay at the share coordinator."""
    async with share.exclusive(group_id):
        return await _delete_all_state(share, group_id)


async def _delete_all_state(share: ShareProtocol, group_id: str) -> ErrorCode:
    try:
        _require_serving(share)
        group = share.group(group_id)
        _require_empty(group)
        image = share.topics.image
        topics = [
            topic for key in sorted(group.state_partitions.topic_ids()) if (topic := image.topic(key)) is not None
        ]
        errors = await _delete_state(share, group, topics) if topics else {}
    except Refused as fault:
        return fault.error
    return next(iter(errors.values()), ErrorCode.NONE)


async def _delete_state(share: ShareProtocol, group: ShareGroup, topics: Sequence[Topic]) -> dict[bytes, ErrorCode]:
    """The errors of topics whose state could not be deleted."""
    topic_ids = {topic.topic_id for topic in topics}
    # What was left behind by a deletion that failed may concern any partition.
    partitions = [
        (topic.topic_id, index)
        for topic in topics
        for index in (
            range(len(topic.partitions))
            if topic.topic_id in group.state_partitions.deleting
            else sorted(group.state_partitions.partitions_of(topic.topic_id))
        )
    ]
    wanted = {topic.topic_id: OfTopic(topic.name, frozenset(range(len(topic.partitions)))) for topic in topics}
    share.ask_about(group.group_id, wanted)
    try:
        kept = group.state_partitions.delete(topic_ids)
        _require(await share.written([records.state_partitions_record(group.group_id, kept)]))
        told = await share.persister.delete(group.group_id, partitions)
        _require_serving(share)
        errors: dict[bytes, ErrorCode] = {
            topic_id: error for (topic_id, _), error in told.items() if error is not ErrorCode.NONE
        }
        await _note_deleted(share, group.group_id, topic_ids - errors.keys())
    finally:
        share.answered(group.group_id, wanted)
    return errors


async def _note_deleted(share: ShareProtocol, group_id: str, topic_ids: Collection[bytes]) -> None:
    group = share.find(group_id)
    if group is None:
        return
    left = {key: name for key, name in group.state_partitions.deleting.items() if key not in topic_ids}
    if left != group.state_partitions.deleting:
        kept = group.state_partitions._replace(deleting=left)
        _require(await share.written([records.state_partitions_record(group_id, kept)]))


def _require_empty(group: ShareGroup) -> None:
    if group.members:
        refuse(ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP.message)


def _require(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        refuse(error, error.message)


def _require_serving(share: ShareProtocol) -> None:
    if share.is_over:
        refuse(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR.message)
