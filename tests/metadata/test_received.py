"""Data from other nodes is decoded once, before it is stored, and the result is cached only while it is useful."""

from __future__ import annotations

import pytest

from chronik.metadata.image import EMPTY
from chronik.metadata.received import KEPT_BYTES_MAX, KEPT_MAX, Received, snapshot_refusal
from chronik.metadata.records import FeatureLevelRecord, encode_batch
from chronik.metadata.snapshot import encode_snapshot


def batch(name: str) -> bytes:
    return encode_batch([FeatureLevelRecord(name=name, level=1)])


def test_an_entry_is_decoded_once_and_then_forgotten() -> None:
    received, data = Received(), batch("f")
    assert received.refusal(data) is None
    kept = received.records(data)
    assert isinstance(kept, list)
    assert [record.name for record in kept] == ["f"]
    assert [record.name for record in received.records(data)] == ["f"], "it may come again, and is read again"


@pytest.mark.parametrize("data", [b"x", batch("f")[:-1], batch("f") + b"\x01", b"\x01\xff\xff"])
def test_bytes_that_are_no_records_are_refused(data: bytes) -> None:
    assert Received().refusal(data) is not None


def test_what_is_kept_is_bounded() -> None:
    """Entries that a later leader replaced are never applied."""
    received = Received()
    for number in range(KEPT_MAX + 50):
        assert received.refusal(batch(str(number))) is None
    assert len(received._records) == KEPT_MAX
    large = encode_batch([FeatureLevelRecord(name="x" * 30_000, level=1)] * (KEPT_BYTES_MAX // 30_000 + 1))
    assert received.refusal(large) is None
    assert large not in received._records
    assert received.refusal(large[:-1]) is not None


def test_a_snapshot_is_read_too() -> None:
    data = encode_snapshot(EMPTY)
    assert snapshot_refusal(data) is None
    for broken in (b"", data[:-1], data + b"x"):
        assert snapshot_refusal(broken) is not None
