"""Elects leaders now: the preferred ones, or any live replica of partitions without a leader."""

from __future__ import annotations

from collections.abc import Iterable

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections, Shape
from chronik.metadata.decisions.partition_changes import attempt
from chronik.metadata.errors import refuse
from chronik.metadata.image import NO_LEADER, Partition, Topic, View
from chronik.metadata.records import MetadataRecord, PartitionChangeRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, int8, int16, int32, string

PREFERRED, UNCLEAN = range(2)  # ElectLeaders.election_type, Kafka's numbers


class ElectLeadersReply(Reply):
    topics: list[ElectedTopic]


class ElectedTopic(Struct):
    name: string
    partitions: list[ElectedPartition]


class ElectedPartition(Struct):
    index: int32
    error_code: int16 = 0
    error_message: string | None = None


class ElectLeaders(ControllerCommand[ElectLeadersReply]):
    """Elects leaders now: the preferred replica where another one leads, or any live replica where none leads."""

    election_type: int8
    topics: list[ElectionTopic] | None  # null: all; the reply then lists only partitions that needed an election

    def decide(self, state: ControllerState) -> Decision[ElectLeadersReply]:
        view, rules = state.view, state.rules
        if self.election_type not in (PREFERRED, UNCLEAN):
            refuse(ErrorCode.INVALID_REQUEST, f"election type {self.election_type} is unknown: 0 preferred, 1 unclean")
        elections = Elections(view, rules)
        unclean = self.election_type == UNCLEAN

        def elect(topic: Topic, index: int, before: Partition) -> PartitionChangeRecord | None:
            return _elected(elections, topic, index, before, unclean=unclean)

        records: list[MetadataRecord] = []
        topics = []
        for name, indexes in _asked(view, self):
            partitions = []
            for index in indexes:
                error, message = attempt(view, name, index, elect, records)
                if self.topics is not None or error != ErrorCode.ELECTION_NOT_NEEDED:
                    partitions.append(ElectedPartition(index=index, error_code=error, error_message=message))
            topics.append(ElectedTopic(name=name, partitions=partitions))
        return Decision(records, ElectLeadersReply(topics=topics), divisible=True)


class ElectionTopic(Struct):
    name: string
    partitions: list[int32]


def _asked(view: View, command: ElectLeaders) -> Iterable[tuple[str, Iterable[int]]]:
    if command.topics is None:
        return ((topic.name, range(len(topic.partitions))) for topic in view.all_topics())
    merged: dict[str, dict[int, None]] = {}
    for asked in command.topics:
        merged.setdefault(asked.name, {}).update(dict.fromkeys(asked.partitions))
    return merged.items()


def _elected(
    elections: Elections, topic: Topic, index: int, before: Partition, *, unclean: bool
) -> PartitionChangeRecord | None:
    name = f"{topic.name}-{index}"
    if before.leader != NO_LEADER and (unclean or before.leader == before.replicas[0]):
        refuse(ErrorCode.ELECTION_NOT_NEEDED, f"{name} is already led by its preferred leader {before.leader}")
    shape = Shape(before.replicas, before.adding, before.removing)
    change = elections.change(topic, index, shape, before.isr, prefers_first=not unclean, allows_unclean=unclean)
    if unclean and (change is None or change.leader == NO_LEADER):
        refuse(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {name} is live: {list(before.replicas)}")
    if not unclean and (change is None or change.leader != before.replicas[0]):
        refuse(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"broker {before.replicas[0]}, the preferred leader of {name}, is not live or not in sync",
        )
    return change
