"""Records of __share_group_state: the acquired, acknowledged and archived records of a share partition.

A snapshot holds the whole state, an update the change since. All v0, values flexible.
"""

from __future__ import annotations

from chronik.wire.notation import InternalRecord, Struct, field, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(InternalRecord, record_type=0, versions="0"):
    group_id: string
    topic_id: uuid
    partition: int32


class ShareSnapshotValue(InternalRecord, record_type=0, versions="0", flexible="0+"):
    snapshot_epoch: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(default=-1, tag=0)
    create_timestamp: int64
    write_timestamp: int64
    state_batches: list[StateBatch]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class ShareUpdateKey(InternalRecord, record_type=1, versions="0"):
    group_id: string
    topic_id: uuid
    partition: int32


class ShareUpdateValue(InternalRecord, record_type=1, versions="0", flexible="0+"):
    snapshot_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch]
