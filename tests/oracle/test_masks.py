"""The masks hide what they name and nothing else: a mask that hides too much would let every comparison pass."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.messages.create_topics import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from chronik.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from chronik.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from chronik.wire.records import ControlType, Record, marker
from tests.oracle.masks import Names, masked

BATCH = build([Record(0, 1_600_000_000_000, b"k", b"v" * 40)], Codec.GZIP)
SAME_RECORDS = build([Record(0, 1_600_000_000_000, b"k", b"v" * 40)], Codec.GZIP, level=1)
OTHER_RECORDS = build([Record(0, 1_600_000_000_000, b"k", b"w" * 40)], Codec.GZIP)


def joined(member_id: str, leader: str, *members: str, generation: int = 1) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0,
        generation_id=generation,
        protocol_name="range",
        leader=leader,
        member_id=member_id,
        members=[JoinGroupResponseMember(member_id=each, metadata=b"") for each in members],
    )


def created(error: int, message: str | None, *keys: str) -> CreateTopicsResponse:
    configs = [CreatableTopicConfigs(name=key, value="1", read_only=False, is_sensitive=False) for key in keys]
    topic = CreatableTopicResult(name="t", error_code=error, error_message=message, configs=configs)
    return CreateTopicsResponse(topics=[topic])


def fetched(records: bytes, high_watermark: int = 1) -> FetchResponse:
    partition = PartitionData(
        partition_index=0, error_code=0, high_watermark=high_watermark, aborted_transactions=None, records=records
    )
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


def look_equal(kafka: Any, chronik: Any, **how: Any) -> bool:
    return bool(masked(kafka, Names(1), **how) == masked(chronik, Names(2), **how))


@pytest.mark.parametrize(
    ("kafka", "chronik", "equal"),
    [
        (joined("a", "a", "a", "b"), joined("x", "x", "x", "y"), True),
        (joined("a", "a", "a", "b"), joined("x", "x", "y", "x"), False),  # the members are swapped
        (joined("a", "b", "a", "b"), joined("x", "x", "x", "y"), False),  # another leader
        (joined("a", "a"), joined("", ""), False),  # no id is not an id
        (joined("a", "a"), joined("x", "x", generation=2), False),
        (created(3, "one sentence"), created(3, "another"), True),
        (created(3, "one sentence"), created(3, None), True),
        (created(3, "one sentence"), created(4, "one sentence"), False),
        (created(0, None), created(0, ""), False),  # without an error the text counts
        (created(0, None, "a", "b"), created(0, None, "a", "b", "chronik.c"), True),
        (created(0, None, "a", "b"), created(0, None, "b", "a"), False),
        (created(0, None, "a", "b"), created(0, None, "a"), False),
        (fetched(BATCH), fetched(BATCH), True),
        (fetched(BATCH + BATCH[:70]), fetched(BATCH), True),  # the rest of a batch that was cut
        (fetched(BATCH + BATCH), fetched(BATCH), False),
        (fetched(BATCH), fetched(SAME_RECORDS), False),
        (fetched(BATCH), fetched(BATCH, high_watermark=2), False),
    ],
)
def test_only_what_a_mask_names_is_hidden(kafka: Any, chronik: Any, equal: bool) -> None:
    assert look_equal(kafka, chronik) is equal


def test_records_that_a_broker_packed_anew_are_compared_unpacked() -> None:
    """Two libraries compress the same records to different bytes; other records are still other records."""
    assert BATCH != SAME_RECORDS
    assert look_equal(fetched(BATCH), fetched(SAME_RECORDS), repacked=True)
    assert not look_equal(fetched(BATCH), fetched(OTHER_RECORDS), repacked=True)


def written(producer_id: int, value: bytes = b"v", *, epoch: int = 0, is_transactional: bool = True) -> bytes:
    record = Record(0, 1_600_000_000_000, b"k", value)
    return build(
        [record],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=is_transactional,
    )


def ended(time_ms: int, outcome: ControlType = ControlType.COMMIT, *, coordinator_epoch: int = 0) -> bytes:
    record = marker(0, time_ms, outcome, coordinator_epoch)
    return build([record], producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)


@pytest.mark.parametrize(
    ("kafka", "chronik", "equal"),
    [
        (written(5), written(9), True),
        (written(5) + written(6), written(9) + written(8), True),
        (written(5) + written(5), written(9) + written(8), False),  # one producer is not two
        (written(5), written(5, b"w"), False),
        (written(5), written(5, epoch=1), False),
        (written(5), written(5, is_transactional=False), False),
        (ended(1_790_000_000_000), ended(1_790_000_000_555), True),
        (ended(1_790_000_000_000), ended(1_790_000_000_000, ControlType.ABORT), False),
        (ended(1_790_000_000_000), ended(1_790_000_000_000, coordinator_epoch=1), False),
    ],
)
def test_batches_of_producers_are_compared_but_for_ids_and_times_of_markers(
    kafka: bytes, chronik: bytes, equal: bool
) -> None:
    """Producer ids and times depend on the server; clients read everything else of a batch."""
    assert look_equal(fetched(kafka), fetched(chronik)) is equal


def test_a_name_is_kept_from_answer_to_answer() -> None:
    """An id that a server shows again has to be the one that the other shows again."""
    kafka, chronik = Names(1), Names(2)
    assert masked(joined("a", "a"), kafka) == masked(joined("x", "x"), chronik)
    assert masked(joined("b", "b"), kafka) == masked(joined("y", "y"), chronik)
    assert masked(joined("a", "a"), kafka) != masked(joined("y", "y"), chronik)
