"""Replicas held against one another: the same bytes, or the first offset at which they are not."""

from __future__ import annotations

import pytest

from chronik.client.admin.replicas import hold_together
from chronik.wire.batches import build
from chronik.wire.records import Record


def one(offset: int, value: bytes, epoch: int = 1) -> bytes:
    return build([Record(offset, 1_700_000_000_000, None, value, ())], leader_epoch=epoch)


A, B, C = one(0, b"a"), one(1, b"b"), one(2, b"c")
CASES = [
    ([{0: A, 1: B}, {0: A, 1: B}], (2, None)),
    ([{0: A, 1: B, 2: C}, {0: A}], (1, None)),  # one broker returned less: continue after it
    ([{0: A}, {0: A, 1: B}, {0: A, 1: B, 2: C}], (1, None)),
    ([{0: A, 1: B}, {0: A, 1: one(1, b"x")}], (1, 1)),
    ([{0: A, 1: B}, {0: A, 1: one(1, b"b", epoch=2)}], (1, 1)),  # the same record, of another leader
    ([{0: A}, {1: B}], (0, 0)),  # the second lacks the first batch
    ([{0: A}, {}], (0, 0)),
    ([{}, {0: A}], (0, 0)),
]


@pytest.mark.parametrize(("pieces", "expected"), CASES)
def test_replicas_are_compared_batch_by_batch(pieces: list[dict[int, bytes]], expected: tuple[int, int | None]) -> None:
    """Brokers answer with as much as they like, so only what all have answered counts."""
    assert hold_together(pieces, 0) == expected
