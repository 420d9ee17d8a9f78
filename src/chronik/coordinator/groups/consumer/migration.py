"""Changes a group's protocol while its members continue to read.

Upgrade: the first member with the consumer protocol turns a classic group into a consumer group. The other members
continue as classic members of it. Downgrade: when the last member with the consumer protocol is gone, the group becomes
a classic group again. A policy says which of the two are allowed.

Pure: a group in, the records that convert it out. All records of a conversion are in one batch, so no coordinator finds
half of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.members import Member as ClassicMember
from chronik.coordinator.groups.config import MigrationPolicy
from chronik.coordinator.groups.consumer import embedded, records
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import NO_TARGET, Member, Owned, Target
from chronik.coordinator.groups.consumer.requests import refuse
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.records import group_record
from chronik.coordinator.shard import CoordinatorRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol

# --- from classic to consumer


def upgrade(
    classic: ClassicGroup, policy: MigrationPolicy, size_max: int, topics: Topics
) -> tuple[list[CoordinatorRecord], ConsumerGroup]:
    """The records, and the group that results from them."""
    group_id = classic.group_id
    if not policy.may_upgrade:
        _stays(group_id, f"group.consumer.migration.policy={policy} does not allow to upgrade it")
    if not classic.uses_consumer_protocol:
        _stays(group_id, f"its members are no consumers, but of protocol type {classic.protocol_type}")
    if len(classic.members) > size_max:
        _stays(group_id, f"it has {len(classic.members)} members, and group.consumer.max.size={size_max}")
    taken: set[tuple[bytes, int]] = set()
    members = [_upgraded(classic, each, topics, taken) for each in classic.members.values()]
    written = classic.removal()
    written += [records.member_record(group_id, each) for each in members]
    names = {topic for each in members for topic in each.topics}
    epoch = max(classic.generation, 0)
    written.append(records.epoch_record(group_id, epoch, topics.hash_of(names)))
    written += [records.target_record(group_id, each.member_id, _as_target(each.assigned)) for each in members]
    written.append(records.target_epoch_record(group_id, epoch, 0))
    written += [records.current_record(group_id, each) for each in members]
    group = ConsumerGroup(group_id, MemberMemory(), topics)
    for record in written[1:]:
        group.replay(record)
    return written, group


def _upgraded(classic: ClassicGroup, member: ClassicMember, topics: Topics, taken: set[tuple[bytes, int]]) -> Member:
    try:
        subscription = embedded.subscription(member.metadata(classic.protocol or classic.select_protocol()))
        assignment = embedded.assignment(member.assignment) if member.assignment else {}
    except Malformed:
        _stays(classic.group_id, f"what member {member.member_id} sent is not of the consumer protocol")
    except embedded.CustomAssignor:
        _stays(classic.group_id, "an assignor of the clients' own is in use: change to a built-in one first")
    assigned: dict[bytes, dict[int, int]] = {}
    for name, partitions in assignment.items():
        topic = topics.image.topic_named(name)
        for partition in partitions if topic is not None else ():
            assert topic is not None
            # Clients have assigned these, and may have assigned a partition twice: its first owner gets it.
            if (topic.topic_id, partition) not in taken and topic.partition(partition) is not None:
                taken.add((topic.topic_id, partition))
                assigned.setdefault(topic.topic_id, {})[partition] = classic.generation
    return Member(
        member.member_id,
        member_epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        assigned=assigned,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.protocols],
        ),
    )


def _stays(group_id: str, reason: str) -> NoReturn:
    refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} cannot become a consumer group: {reason}")


def _as_target(owned: Owned) -> Target:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


# --- from consumer to classic


def may_downgrade(group: ConsumerGroup, leaving: Collection[str], policy: MigrationPolicy, size_max: int) -> bool:
    """Whether only classic members remain without these members, and the policy allows the downgrade."""
    staying = [each for key, each in group.members.items() if key not in leaving]
    return (
        bool(staying)
        and len(staying) <= size_max
        and policy.may_downgrade
        and all(each.uses_classic_protocol for each in staying)
    )


def downgrade(
    group: ConsumerGroup,
    leaving: Collection[str],
    joining: tuple[Member, str] | None,
    memory: MemberMemory,
    topics: Topics,
    now_ms: int,
) -> tuple[list[CoordinatorRecord], ClassicGroup]:
    """The records, and the group that takes over once they are in the log. `joining` is a static classic member and,
    after it, the id of the last member with the consumer protocol, which it replaces."""
    classic = ClassicGroup(group.group_id, memory, now_ms)
    classic.state = GroupState.STABLE
    classic.generation = group.epoch
    staying = [(each, key) for key, each in group.members.items() if key not in leaving]
    if joining is not None:
        staying.append(joining)
    for member, _ in staying:
        assert member.classic is not None
        classic.add(
            ClassicMember(
                member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=tuple((each.name, each.metadata) for each in member.classic.supported_protocols),
            ),
            embedded.PROTOCOL_TYPE,
        )
    classic.begin_as_stable()
    assignments: dict[str, bytes] = {}
    for member, target_of in staying:
        named = embedded.named(group.targets.get(target_of, NO_TARGET), topics)
        version = embedded.version_of(classic.members[member.member_id].metadata(classic.protocol))
        assignments[member.member_id] = embedded.encoded_assignment(named, version)
        classic.assign(classic.members[member.member_id], assignments[member.member_id])
    gone = records.group_removed(group.group_id, list(group.members), list(group.resolved))
    return [*gone, group_record(group.group_id, classic.to_stored(assignments))], classic
