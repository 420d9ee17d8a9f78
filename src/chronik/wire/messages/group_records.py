"""Records of __consumer_offsets for positions and for classic groups.

OffsetCommitValue: v1 expire_timestamp; v2 without it; v3 leader_epoch; v4 flexible, topic_id. GroupMetadataValue:
v1 rebalance_timeout; v2 current_state_timestamp; v3 static members; v4 flexible. A null value removes what the key
names.
"""

from __future__ import annotations

from chronik.wire.notation import InternalRecord, Struct, binary, field, int32, int64, string, uuid


class LegacyOffsetCommitKey(InternalRecord, record_type=0, versions="0"):
    group: string
    topic: string
    partition: int32


class LegacyOffsetCommitValue(InternalRecord, record_type=0, versions="0"):
    offset: int64
    metadata: string
    commit_timestamp: int64


class OffsetCommitKey(InternalRecord, record_type=1, versions="0"):
    group: string
    topic: string
    partition: int32


class OffsetCommitValue(InternalRecord, record_type=1, versions="0-4", flexible="4+"):
    offset: int64
    leader_epoch: int32 = field("3+", default=-1)
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 = field("1", default=-1)
    topic_id: uuid = field("4+", tag=0)


class GroupMetadataKey(InternalRecord, record_type=2, versions="0"):
    group: string


class GroupMetadataValue(InternalRecord, record_type=2, versions="0-4", flexible="4+"):
    protocol_type: string
    generation: int32
    protocol: string | None
    leader: string | None
    current_state_timestamp: int64 = field("2+", default=-1)
    members: list[MemberMetadata]


class MemberMetadata(Struct):
    member_id: string
    group_instance_id: string | None = field("3+", default=None)
    client_id: string
    client_host: string
    rebalance_timeout: int32 = field("1+", default=-1)
    session_timeout: int32
    subscription: binary
    assignment: binary
