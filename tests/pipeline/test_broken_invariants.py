"""Invalid plans, created on purpose: a batch that read too little or twice would be committed permanently."""

from __future__ import annotations

import pytest

from chronik.client.topology import TopicPartition
from chronik.pipeline import admission, splitting
from chronik.pipeline.offsets import OffsetRange, Position
from chronik.runtime.invariants import InvariantBroken

AT, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.mark.parametrize(
    ("promise", "shares"),
    [("19 shares add up", {AT: 1}), ("19 no partition gives more", {AT: 30, OTHER: -10})],
)
def test_shares_of_a_batch_add_up(
    promise: str, shares: dict[TopicPartition, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_shares", lambda waiting, offsets_max: shares)
    with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
        admission.limited({}, {AT: 25, OTHER: 25}, 20)


def test_no_piece_of_a_range_is_empty() -> None:
    whole = OffsetRange("t", "", 0, 10, 12)
    assert len(splitting._pieces(whole, 2)) == 2
    with pytest.raises(InvariantBroken, match="19 pieces of a range are the range"):
        splitting._pieces(whole, 3)


def test_a_checkpoint_holds_every_partition() -> None:
    """One that is left out would be read from its beginning after a restart."""
    with pytest.raises(InvariantBroken, match="19 a checkpoint holds every partition"):
        Position({"t": "id"}, {AT: 1, OTHER: 2}).to_json()
