"""Committed offsets of groups, and the decisions about them.

Only replay changes the store. Decisions read it and return records, which have no effect before they are committed.
Retention: an offset of a group with members is kept while a member reads its topic. Otherwise it expires
offsets.retention.minutes after its commit or, in a consumer group that has become empty, after the group became empty.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.group import NO_TIMESTAMP, Group
from chronik.coordinator.groups.records import offset_record, offset_removed
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, each_light
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from chronik.wire.notation import ZERO_UUID

NO_OFFSET: Final = -1
NO_RETENTION_TIME: Final = -1
GROUP_ID_NOT_FOUND_SINCE: Final = 9  # from this version of OffsetCommit on, clients get this error

Partitions = dict[int, OffsetCommitValue]


class OffsetStore:
    """group -> topic -> partition -> committed offset, as in the log."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Partitions]] = {}

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        topics = self._groups.get(key.group)
        if value is not None:
            if topics is None:
                topics = self._groups[key.group] = {}
            partitions = topics.get(key.topic)
            if partitions is None:
                partitions = topics[key.topic] = {}
            partitions[key.partition] = value
        elif topics is not None and (partitions := topics.get(key.topic)) is not None:
            partitions.pop(key.partition, None)
            if not partitions:
                del topics[key.topic]
            if not topics:
                del self._groups[key.group]

    def of(self, group_id: str) -> dict[str, Partitions]:
        return self._groups.get(group_id, {})

    def groups(self) -> list[str]:
        return list(self._groups)

    # --- decisions

    def remove_group(self, group_id: str) -> list[CoordinatorRecord]:
        return [
            offset_removed(group_id, topic, partition)
            for topic, partitions in self.of(group_id).items()
            for partition in partitions
        ]

    def remove_topic(self, topic: str, topic_id: bytes) -> list[CoordinatorRecord]:
        """Removes offsets of a deleted topic in all groups. Offsets of another topic with the same name stay."""
        return [
            offset_removed(group_id, topic, partition)
            for group_id, topics in self._groups.items()
            for partition, value in topics.get(topic, {}).items()
            if not _is_other_topic(value.topic_id, topic_id)
        ]

    def expired(self, group: Group, now_ms: int, retention_ms: int) -> Iterator[tuple[str, int]]:
        """The topics and partitions whose offsets have expired."""
        expiry = group.expire()
        if not expiry.offsets_may_go:
            return
        for topic, partitions in self.of(group.group_id).items():
            if group.subscribes_to(topic):
                continue
            for partition, value in partitions.items():
                if value.expire_timestamp != NO_TIMESTAMP:
                    is_over = now_ms >= value.expire_timestamp  # set by the client; OffsetCommit v2 to v4
                else:
                    since_ms = value.commit_timestamp if expiry.since_ms == NO_TIMESTAMP else expiry.since_ms
                    is_over = now_ms - since_ms >= retention_ms
                if is_over:
                    if group.subscribes_to(topic):
                        broken(
                            "17 an offset that is read does not expire",
                            group=group.group_id,
                            topic=topic,
                            index=partition,
                        )
                    yield topic, partition


# --- OffsetCommit


def commit_error(group: Group | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
    """An unknown group accepts commits of consumers that only store offsets."""
    if group is not None:
        return group.may_commit(request, version)
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_ID_NOT_FOUND_SINCE else ErrorCode.ILLEGAL_GENERATION


def transactional_commit_error(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    """A transaction's commit names a member and a generation or, from older clients, neither."""
    if group is not None:
        return group.may_commit_in_transaction(request)
    return ErrorCode.NONE if request.generation_id_or_member_epoch < 0 else ErrorCode.ILLEGAL_GENERATION


def commit(
    request: OffsetCommitRequest, now_ms: int, config: GroupsConfig
) -> Work[tuple[list[CoordinatorRecord], OffsetCommitResponse]]:
    """The records of an accepted commit. A partition is omitted only if its metadata is too long."""
    group_id = request.group_id
    expire_ms = NO_TIMESTAMP
    if request.retention_time_ms != NO_RETENTION_TIME:
        expire_ms = now_ms + request.retention_time_ms
    expires = expire_ms != NO_TIMESTAMP
    chars_max, no_error = config.offset_metadata_chars_max, ErrorCode.NONE
    records: list[CoordinatorRecord] = []
    answers: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        parts: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            if len(parts) % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
                yield 3
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            if len(metadata) * 2 > chars_max and _utf16_units(metadata) > chars_max:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                parts.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
                continue
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                # The version with an expiry has no fields for epoch and topic id, so these must not be kept in memory
                # either.
                leader_epoch=-1 if expires else partition.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp=now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp,
                expire_timestamp=expire_ms,
                topic_id=ZERO_UUID if expires else topic_id,
            )
            records.append(offset_record(group_id, name, index, value))
            parts.append(OffsetCommitResponsePartition(partition_index=index, error_code=no_error))
        answers.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=parts))
    return records, OffsetCommitResponse(topics=answers)


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _utf16_units(text: str) -> int:
    """A string's length as in Java."""
    return len(text) if text.isascii() else len(text) + sum(1 for character in text if character > "\uffff")


# --- OffsetFetch


def fetch(
    stored: dict[str, Partitions],
    unstable: Mapping[str, Container[int]],
    asked: Sequence[OffsetFetchRequestTopics] | None,
) -> Work[list[OffsetFetchResponseTopics]]:
    """The stored offsets of the requested topics, or of all (None). A missing offset is not an error: the consumer
    resets.

    `unstable` lists partitions whose offsets an open transaction may change: the consumer must retry.
    """
    answers = []
    if asked is None:
        for name, partitions in [(name, dict(partitions)) for name, partitions in stored.items()]:
            of_topic = partial(_fetched_from, partitions, unstable.get(name, ()), ZERO_UUID)
            parts = yield from each_light(of_topic, list(partitions))
            answers.append(OffsetFetchResponseTopics(name=name, partitions=parts))
            yield 1
        return answers
    for topic in asked:
        of_topic = partial(_fetched_from, stored.get(topic.name, {}), unstable.get(topic.name, ()), topic.topic_id)
        parts = yield from each_light(of_topic, topic.partition_indexes)
        yield 1
        answers.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=parts))
    return answers


def _fetched_from(
    partitions: Partitions, unstable: Container[int], topic_id: bytes, index: int
) -> OffsetFetchResponsePartitions:
    if index in unstable:
        return _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    value = partitions.get(index)
    if value is None or _is_other_topic(value.topic_id, topic_id):
        return _no_offset(index, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.NONE,
    )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
    )


def _is_other_topic(stored: bytes, asked: bytes) -> bool:
    """Whether both sides have topic ids and these differ. Old commits and old requests have none."""
    return stored != asked and ZERO_UUID not in (stored, asked)
