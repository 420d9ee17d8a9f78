"""The records of `__consumer_offsets` as Kafka 4.3.1 writes and reads them: literal bytes from its own serializer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.coordinator.groups.records import (
    RECORD_TYPES,
    group_record,
    group_removed,
    offset_record,
    offset_removed,
)
from chronik.coordinator.partitions import java_string_hash, partition_for
from chronik.coordinator.records import decode_record, encode_records
from chronik.coordinator.shard import CoordinatorRecord
from chronik.wire.errors import MalformedMessage
from chronik.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

NOON_MS = 1_700_000_000_000
OFFSET_KEY = "0001 0007 67726f75702d31 0006 6f7264657273 00000003"
GROUP_KEY = "0002 0007 67726f75702d31"


def offset(**changed: object) -> OffsetCommitValue:
    fields = {"offset": 42, "leader_epoch": -1, "metadata": "", "commit_timestamp": NOON_MS, **changed}
    return OffsetCommitValue(**fields)  # type: ignore[arg-type]


TWO_MEMBERS = GroupMetadataValue(
    protocol_type="consumer",
    generation=5,
    protocol="range",
    leader="a-1",
    current_state_timestamp=NOON_MS,
    members=[
        MemberMetadata(
            member_id="a-1",
            group_instance_id="A",
            client_id="a",
            client_host="/127.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=b"\x01\x02",
            assignment=b"\x03",
        ),
        MemberMetadata(
            member_id="b-1",
            client_id="b",
            client_host="/::1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=b"",
            assignment=b"",
        ),
    ],
)
NO_MEMBERS = GroupMetadataValue(
    protocol_type="consumer",
    generation=6,
    protocol=None,
    leader=None,
    current_state_timestamp=NOON_MS,
    members=[],
)

WRITTEN = {
    "an offset": (
        offset_record("group-1", "orders", 3, offset(leader_epoch=7, metadata="note")),
        OFFSET_KEY,
        "0004 000000000000002a 00000007 05 6e6f7465 0000018bcfe56800 00",
    ),
    "an offset with the topic's id": (
        offset_record("group-1", "orders", 3, offset(topic_id=bytes(range(1, 17)))),
        OFFSET_KEY,
        "0004 000000000000002a ffffffff 01 0000018bcfe56800 01 00 10 0102030405060708090a0b0c0d0e0f10",
    ),
    "an offset that expires when its client says": (
        offset_record("group-1", "orders", 3, offset(expire_timestamp=NOON_MS + 1000)),
        OFFSET_KEY,
        "0001 000000000000002a 0000 0000018bcfe56800 0000018bcfe56be8",
    ),
    "a removed offset": (offset_removed("group-1", "orders", 3), OFFSET_KEY, None),
    "a group": (
        group_record("group-1", TWO_MEMBERS),
        GROUP_KEY,
        (
            "0003 0008 636f6e73756d6572 00000005 0005 72616e6765 0003 612d31 0000018bcfe56800 00000002"
            " 0003 612d31 0001 41 0001 61 000a 2f3132372e302e302e31 0000ea60 00002710 00000002 0102 00000001 03"
            " 0003 622d31 ffff 0001 62 0004 2f3a3a31 000493e0 0000afc8 00000000 00000000"
        ),
    ),
    "an empty group": (
        group_record("group-1", NO_MEMBERS),
        GROUP_KEY,
        "0003 0008 636f6e73756d6572 00000006 ffff ffff 0000018bcfe56800 00000000",
    ),
    "a removed group": (group_removed("group-1"), GROUP_KEY, None),
}

MEMBER = {"member_id": "a-1", "client_id": "a", "client_host": "/h", "session_timeout": 10_000}
ONE_MEMBER = {"protocol_type": "consumer", "generation": 5, "protocol": "range", "leader": "a-1"}

OLD = {
    # Records of older brokers: (key, value, meaning).
    "offset v0": ("0001 0001 67 0001 74 00000001", "0000 0000000000000009 0001 6d 0000018bcfe56800", {}),
    "offset v0 under the oldest key": (
        "0000 0001 67 0001 74 00000001",
        "0000 0000000000000009 0001 6d 0000018bcfe56800",
        {},
    ),
    "offset v1": (
        "0001 0001 67 0001 74 00000001",
        "0001 0000000000000009 0001 6d 0000018bcfe56800 0000018bcfe56be8",
        {"expire_timestamp": NOON_MS + 1000},
    ),
    "offset v2": ("0001 0001 67 0001 74 00000001", "0002 0000000000000009 0001 6d 0000018bcfe56800", {}),
    "offset v3": (
        "0001 0001 67 0001 74 00000001",
        "0003 0000000000000009 00000004 0001 6d 0000018bcfe56800",
        {"leader_epoch": 4},
    ),
    "group v0": (
        "0002 0001 67",
        (
            "0000 0008 636f6e73756d6572 00000005 0005 72616e6765 0003 612d31 00000001"
            " 0003 612d31 0001 61 0002 2f68 00002710 00000001 01 00000001 02"
        ),
        {"current_state_timestamp": -1, "rebalance_timeout": -1},
    ),
    "group v1": (
        "0002 0001 67",
        (
            "0001 0008 636f6e73756d6572 00000005 0005 72616e6765 0003 612d31 00000001"
            " 0003 612d31 0001 61 0002 2f68 0000ea60 00002710 00000001 01 00000001 02"
        ),
        {"current_state_timestamp": -1, "rebalance_timeout": 60_000},
    ),
    "group v2": (
        "0002 0001 67",
        (
            "0002 0008 636f6e73756d6572 00000005 0005 72616e6765 0003 612d31 0000018bcfe56800 00000001"
            " 0003 612d31 0001 61 0002 2f68 0000ea60 00002710 00000001 01 00000001 02"
        ),
        {"current_state_timestamp": NOON_MS, "rebalance_timeout": 60_000},
    ),
}


def decode(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    return decode_record(RECORD_TYPES, memoryview(key), None if value is None else memoryview(value))


@pytest.mark.parametrize("name", WRITTEN)
def test_records_are_written_byte_for_byte_as_kafka_writes_them(name: str) -> None:
    """Kafka's own tools read this topic, and a cluster may be handed over in either direction."""
    record, key, value = WRITTEN[name]
    (encoded,) = encode_records([record], NOON_MS)
    assert encoded.key == bytes.fromhex(key)
    assert encoded.value == (None if value is None else bytes.fromhex(value))
    assert decode(bytes.fromhex(key), encoded.value) == record


@pytest.mark.parametrize("name", OLD)
def test_records_of_older_brokers_are_understood(name: str) -> None:
    """A log is compacted, not rewritten: records from years ago may still be there."""
    key, value, changed = OLD[name]
    record = decode(bytes.fromhex(key), bytes.fromhex(value))
    assert record is not None
    if isinstance(record.key, OffsetCommitKey):
        assert record.key == OffsetCommitKey(group="g", topic="t", partition=1)
        assert record.value == offset(offset=9, metadata="m", **changed)
    else:
        timeout_ms = changed.pop("rebalance_timeout")
        member = MemberMetadata(**MEMBER, rebalance_timeout=timeout_ms, subscription=b"\x01", assignment=b"\x02")
        assert record.key == GroupMetadataKey(group="g")
        assert record.value == GroupMetadataValue(**ONE_MEMBER, members=[member], **changed)


@pytest.mark.parametrize("kind", [3, 8, 16, 99, -1])
def test_records_of_unknown_types_are_skipped(kind: int) -> None:
    """A newer broker may have written there; its records are not ours to judge."""
    assert decode(kind.to_bytes(2, "big", signed=True) + b"anything", b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", None),
        ("00", None),
        ("0001 0001 67 0001 74 0000", None),
        (OFFSET_KEY, ""),
        (OFFSET_KEY, "0005"),
        (OFFSET_KEY, "ffff"),
        (OFFSET_KEY, "0003 00"),
    ],
)
def test_broken_records_are_refused_by_name(key: str, value: str | None) -> None:
    """State that cannot be read must stop the load; guessing would lose offsets without a word."""
    with pytest.raises(MalformedMessage):
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


texts = st.text(max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1)
values = st.builds(
    OffsetCommitValue,
    offset=numbers,
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=texts,
    commit_timestamp=numbers,
    topic_id=st.binary(min_size=16, max_size=16),
)


@given(texts, texts, st.integers(0, 2**31 - 1), values)
def test_what_is_written_is_what_is_read(group: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
    """Live state is replayed from structs, loaded state from bytes; both have to be the same state."""
    record = offset_record(group, topic, partition, value)
    (encoded,) = encode_records([record], 0)
    assert encoded.key is not None
    assert decode(encoded.key, encoded.value) == record


HASHES = [
    # group, Java's hashCode, partition of 50; from Java itself
    ("", 0, 0),
    ("g", 103, 3),
    ("group-1", 293427299, 49),
    ("console-consumer-12345", 158455506, 6),
    ("grüße", 98768023, 23),
    ("\U0001f600 group", -1570619006, 6),
    ("polygenelubricants", -2147483648, 0),
    ("zzzzzzzzzzzzzzzzzzzz", 1718487168, 18),
]


@pytest.mark.parametrize(("group", "code", "partition"), HASHES)
def test_a_group_lives_in_the_partition_every_kafka_broker_says(group: str, code: int, partition: int) -> None:
    """Offsets written by Kafka would not be found otherwise. Java counts UTF-16 units, and -2^31 has no absolute."""
    assert java_string_hash(group) == code
    assert partition_for(group, 50) == partition
