"""How much of the available data enters the next batch: maxOffsetsPerTrigger and minOffsetsPerTrigger. Pure.

A partition's share is proportional to its backlog, so that all of them catch up at about the same time. Every partition
with new records gets a share in every batch with room for all, so that a busy one never starves a quiet one. The sum of
the shares is exactly the limit, or everything if that is less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronik.client.topology import TopicPartition


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], offsets_max: int
) -> dict[TopicPartition, int]:
    """The end of a batch of at most `offsets_max` offsets. A partition missing in `start` starts at 0."""
    waiting = {at: end - start.get(at, 0) for at, end in sorted(latest.items()) if end > start.get(at, 0)}
    if sum(waiting.values()) <= offsets_max:
        return dict(latest)
    shares = _shares(waiting, offsets_max)
    check(
        sum(shares.values()) == offsets_max,
        "19 shares add up to the limit",
        shares=sum(shares.values()),
        limit=offsets_max,
    )
    check(
        all(0 <= share <= waiting[at] for at, share in shares.items()),
        "19 no partition gives more than waits in it",
        limit=offsets_max,
    )
    return {at: start.get(at, 0) + shares[at] if at in waiting else end for at, end in latest.items()}


def _shares(waiting: Mapping[TopicPartition, int], offsets_max: int) -> dict[TopicPartition, int]:
    fullest_first = sorted(waiting, key=lambda at: (-waiting[at], at))
    shares = dict.fromkeys(waiting, 0)
    for at in fullest_first[:offsets_max]:
        shares[at] = 1
    left = offsets_max - sum(shares.values())
    rest = {at: waiting[at] - shares[at] for at in waiting}
    total = sum(rest.values())
    for at in waiting:
        shares[at] += rest[at] * left // total
    # Rounding leaves less than one offset per partition.
    for at in fullest_first[: offsets_max - sum(shares.values())]:
        shares[at] += 1
    return shares


def is_enough(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    offsets_min: int | None,
    waited_ms: int,
    delay_ms_max: int,
) -> bool:
    """Whether a batch is due: enough offsets wait, or some have waited long enough."""
    waiting_count = sum(max(0, end - start.get(at, 0)) for at, end in latest.items())
    if offsets_min is None or waiting_count >= offsets_min:
        return True
    return waiting_count > 0 and waited_ms >= delay_ms_max
