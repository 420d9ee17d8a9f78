"""The opaque bytes that consumers of a classic group put in JoinGroup and SyncGroup, after an int16 version.

Subscription: v1 owned_partitions; v2 generation_id; v3 rack_id. The assignment is the same in all four. A reader
decodes a newer version as the newest it knows, and ignores the remaining bytes.
"""

from __future__ import annotations

from chronik.wire.notation import Data, Struct, binary, field, int32, string


class ConsumerProtocolSubscription(Data, versions="0-3"):
    topics: list[string]
    user_data: binary | None = None
    owned_partitions: list[TopicPartition] = field("1+")
    generation_id: int32 = field("2+", default=-1)
    rack_id: string | None = field("3+", default=None)


class TopicPartition(Struct):
    topic: string
    partitions: list[int32]


class ConsumerProtocolAssignment(Data, versions="0-3"):
    assigned_partitions: list[TopicPartition]
    user_data: binary | None = None
