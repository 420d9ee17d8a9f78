"""Records as bytes. The literal bytes are what logs on disk hold: they never change, only new versions are added."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.metadata.errors import DamagedMetadata
from chronik.metadata.records import (
    WRITTEN,
    AccessRuleRecord,
    AppliedRequestRecord,
    BrokerChangeRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndpointField,
    FeatureLevelRecord,
    FeatureRangeField,
    MetadataRecord,
    NewTopicRecord,
    PartitionChangeRecord,
    PartitionRecord,
    PartitionsChangeRecord,
    ProducerIdsRecord,
    QuotaEntityField,
    QuotaValueField,
    RegisterBrokerRecord,
    RemoveAccessRuleRecord,
    RemoveDelegationTokenRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_batch,
    encode_batch,
)
from chronik.wire.notation import ListOf, Scalar, Struct

ID = bytes(range(16))
HEX_ID = "000102030405060708090a0b0c0d0e0f"

CASES: list[tuple[MetadataRecord, str]] = [
    (ClusterRecord(cluster_id="c1", broker_epoch_last=9), "01 00  03 6331 0000000000000009 00"),
    (FeatureLevelRecord(name="f", level=2), "02 00  02 66 0002 00"),
    (
        RegisterBrokerRecord(
            broker_id=1,
            epoch=7,
            incarnation_id=ID,
            fenced=True,
            in_controlled_shutdown=False,
            rack=None,
            endpoints=[EndpointField(name="P", host="h", port=9092, security_protocol=0)],
            features=[FeatureRangeField(name="f", level_min=1, level_max=2)],
            directory_ids=[ID],
        ),
        (
            f"03 00  00000001 0000000000000007 {HEX_ID} 01 00 00  02 02 50 02 68 2384 0000 00  02 02 66 0001 0002 00"
            f"  02 {HEX_ID} 00"
        ),
    ),
    (
        BrokerChangeRecord(broker_id=1, epoch=7, fenced=False, in_controlled_shutdown=True),
        "04 00  00000001 0000000000000007 00 01 00",
    ),
    (UnregisterBrokerRecord(broker_id=1, epoch=7), "05 00  00000001 0000000000000007 00"),
    (
        ClientQuotaRecord(entity=[QuotaEntityField(type="ip", name=None)], key="k", value=QuotaValueField(value=1.5)),
        "14 00  02 03 6970 00 00  02 6b  01 3ff8000000000000 00  00",
    ),
    (
        ClientQuotaRecord(entity=[QuotaEntityField(type="ip", name="h")], key="k", value=None),
        "14 00  02 03 6970 02 68 00  02 6b  ff  00",
    ),
    (TopicRecord(topic_id=ID, name="t"), f"06 00  {HEX_ID} 02 74 00"),
    (
        PartitionRecord(topic_id=ID, index=3, leader=1, leader_epoch=2, partition_epoch=4, replicas=[1, 2], isr=[1]),
        f"07 00  {HEX_ID} 00000003 00000001 00000002 00000004  03 00000001 00000002  02 00000001 00",
    ),
    (
        PartitionChangeRecord(topic_id=ID, index=3, leader=-1, leader_epoch=2, partition_epoch=4, isr=[1], elr=[2]),
        f"08 00  {HEX_ID} 00000003 ffffffff 00000002 00000004  02 00000001  01 00 05 02 00000002",
    ),
    (
        PartitionChangeRecord(
            topic_id=ID,
            index=3,
            leader=1,
            leader_epoch=2,
            partition_epoch=4,
            isr=[1],
            replicas=[2, 1],
            adding=[2],
            removing=[1],
        ),
        (
            f"08 00  {HEX_ID} 00000003 00000001 00000002 00000004  02 00000001"
            "  03 02 09 03 00000002 00000001 03 05 02 00000002 04 05 02 00000001"
        ),
    ),
    (
        NewTopicRecord(topic_id=ID, name="t", replication_factor=2, replicas=bytes.fromhex("00000001 00000002")),
        f"0d 00  {HEX_ID} 02 74 0002  09 00000001 00000002 00",
    ),
    (
        PartitionsChangeRecord(
            leader=1, leader_epoch=2, partition_epoch=4, replicas=[1, 2], isr=[1], partitions=ID + bytes(4), elr=[2]
        ),
        (
            "0e 00  00000001 00000002 00000004  03 00000001 00000002  02 00000001"
            f"  15 {HEX_ID} 00000000  01 00 05 02 00000002"
        ),
    ),
    (RemoveTopicRecord(topic_id=ID), f"09 00  {HEX_ID} 00"),
    (ConfigRecord(resource_type=2, resource_name="t", key="k", value=None), "0a 00  02 02 74 02 6b 00 00"),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=1000),
        "0b 00  00000001 0000000000000007 00000000000003e8 00",
    ),
    (
        AccessRuleRecord(
            resource_type=2,
            resource_name="t",
            pattern_type=4,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        ),
        "12 00  02 02 74 04 07 557365723a61 02 2a 03 03 00",
    ),
    (
        RemoveAccessRuleRecord(
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=2,
        ),
        "13 00  02 02 74 03 07 557365723a61 02 2a 03 02 00",
    ),
    (
        AppliedRequestRecord(node_id=1, incarnation=2, sequence=5, answered_below=4, reply=b"ok"),
        "0c 00  00000001 0000000000000002 0000000000000005 0000000000000004 03 6f6b 00",
    ),
    (
        ScramCredentialRecord(user="u", mechanism=2, salt=b"sa", stored_key=b"st", server_key=b"se", iterations=4096),
        "0f 00  02 75 02 03 7361 03 7374 03 7365 00001000 00",
    ),
    (RemoveScramCredentialRecord(user="u", mechanism=1), "10 00  02 75 01 00"),
    (ScramSecretRecord(secret=b"xy"), "11 00  03 7879 00"),
    (
        DelegationTokenRecord(
            token_id="t", owner="User:a", requester="User:b", renewers=["User:c"], issue_ms=1, expiry_ms=2, max_ms=3
        ),
        (
            "15 00  02 74 07 557365723a61 07 557365723a62 02 07 557365723a63 "
            "0000000000000001 0000000000000002 0000000000000003 00"
        ),
    ),
    (RemoveDelegationTokenRecord(token_id="t"), "16 00  02 74 00"),
]


def test_every_kind_of_record_has_a_case() -> None:
    """A kind without bytes in the table could change its format unseen."""
    assert {type(record) for record, _ in CASES} == set(WRITTEN)
    assert len({number for number, _ in WRITTEN.values()}) == len(WRITTEN)


@pytest.mark.parametrize(("record", "expected"), CASES)
def test_a_record_is_these_bytes(record: MetadataRecord, expected: str) -> None:
    """A log written by one version of the program must be readable by the next."""
    data = bytes.fromhex("01" + expected)
    assert encode_batch([record]).hex() == data.hex()
    assert list(decode_batch(data)) == [record]


@pytest.mark.parametrize(("record", "expected"), CASES)
def test_half_a_record_is_damage(record: MetadataRecord, expected: str) -> None:
    """Half of a batch would be another state than the whole: it is refused, not read as far as it goes."""
    data = bytes.fromhex("01" + expected)
    for size in (*range(2, len(data)), 0):
        with pytest.raises(DamagedMetadata):
            list(decode_batch(data[:size]))
    assert list(decode_batch(data[:1])) == []


@pytest.mark.parametrize("data", ["02", "01 0d 00", "01 06 01", "01 00 00", "ff"])
def test_what_a_newer_program_wrote_is_refused(data: str) -> None:
    """Skipping a record would fork this node from the others."""
    with pytest.raises(DamagedMetadata):
        list(decode_batch(bytes.fromhex(data)))


def values_of(kind: object, *, nullable: bool) -> st.SearchStrategy[object]:
    if nullable:
        return st.none() | values_of(kind, nullable=False)
    if isinstance(kind, ListOf):
        return st.lists(values_of(kind.element, nullable=False), max_size=4)
    if isinstance(kind, Scalar):
        sizes = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
        if kind.name in sizes:
            bits = sizes[kind.name]
            return st.integers(-(2**bits), 2**bits - 1)
        return {
            "uint16": st.integers(0, 2**16 - 1),
            "float64": st.floats(allow_nan=False),
            "boolean": st.booleans(),
            "string": st.text(max_size=200),
            "binary": st.binary(max_size=300),
            "uuid": st.binary(min_size=16, max_size=16),
        }[kind.name]
    assert isinstance(kind, type)
    assert issubclass(kind, Struct)
    return structs(kind)


def structs(kind: type[Struct]) -> st.SearchStrategy[Struct]:
    fields = {each.name: values_of(each.type, nullable=0 in each.nullable) for each in kind.fields}
    return st.builds(kind, **fields)


@given(st.lists(st.one_of([structs(kind) for kind in WRITTEN]), max_size=8))
def test_any_batch_survives_its_bytes(records: list[MetadataRecord]) -> None:
    """The leader replays the records that it wrote, and followers those that they read: both must be the same."""
    assert list(decode_batch(encode_batch(records))) == records


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_being_refused(data: bytes) -> None:
    """They come from a disk or a peer."""
    with suppress(DamagedMetadata):
        list(decode_batch(b"\x01" + data))
