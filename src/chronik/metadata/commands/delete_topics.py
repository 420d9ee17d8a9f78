"""Deletes topics, by name or by id. Each topic of the command is decided alone."""

from __future__ import annotations

from collections import Counter

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import Topic, View
from chronik.metadata.records import MetadataRecord, RemoveTopicRecord
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import ZERO_UUID, Struct, int16, string, uuid
from chronik.wire.uuids import uuid_text


class DeleteTopicsReply(Reply):
    topics: list[DeletedTopic]


class DeletedTopic(Struct):
    name: string | None
    topic_id: uuid
    error_code: int16 = 0
    error_message: string | None = None


class DeleteTopics(ControllerCommand[DeleteTopicsReply]):
    topics: list[TopicName]

    def decide(self, state: ControllerState) -> Decision[DeleteTopicsReply]:
        """A topic named twice, by name, by id or by both, is not deleted: the request is ambiguous."""
        view = state.view
        found = [_topic_at(view, asked) for asked in self.topics]
        times_named = Counter(asked.name for asked in self.topics if asked.name is not None)
        times_found = Counter(topic.topic_id for topic in found if topic is not None)
        records: list[MetadataRecord] = []
        replies: list[DeletedTopic] = []
        repeated: set[str] = set()
        for asked, topic in zip(self.topics, found, strict=True):
            if asked.name is not None and times_named[asked.name] > 1:
                if asked.name in repeated:
                    continue
                repeated.add(asked.name)
            reply = DeletedTopic(name=asked.name, topic_id=asked.topic_id)
            replies.append(reply)
            try:
                removed = _removable(asked, topic, times_named, times_found)
            except MetadataRefused as refused:
                reply.error_code, reply.error_message = refused.error_code, refused.message
            else:
                reply.name, reply.topic_id = removed.name, removed.topic_id
                records.append(RemoveTopicRecord(topic_id=removed.topic_id))
        check(
            len(records) == sum(not reply.error_code for reply in replies),
            "5 what is answered is what was decided",
            removed=len(records),
            answers=len(replies),
        )
        return Decision(records, DeleteTopicsReply(topics=replies))


class TopicName(Struct):
    """By name or by id, not both."""

    name: string | None = None
    topic_id: uuid = ZERO_UUID


def _topic_at(view: View, asked: TopicName) -> Topic | None:
    return view.topic(asked.topic_id) if asked.name is None else view.topic_named(asked.name)


def _removable(asked: TopicName, topic: Topic | None, times_named: Counter[str], times_found: Counter[bytes]) -> Topic:
    by_id = asked.topic_id != ZERO_UUID
    if asked.name is None and not by_id:
        refuse(ErrorCode.INVALID_REQUEST, "a topic to delete needs a name or an id")
    if asked.name is not None and by_id:
        refuse(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is given by name and by id: give one of them")
    if asked.name is not None and times_named[asked.name] > 1:
        refuse(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is {times_named[asked.name]} times in the request")
    if topic is None:
        if asked.name is None:
            refuse(ErrorCode.UNKNOWN_TOPIC_ID, f"unknown topic id {uuid_text(asked.topic_id)}")
        refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {asked.name!r} does not exist")
    if times_found[topic.topic_id] > 1:
        refuse(
            ErrorCode.INVALID_REQUEST, f"topic {topic.name!r}, id {uuid_text(topic.topic_id)}, is in the request twice"
        )
    return topic
