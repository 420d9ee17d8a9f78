"""How much of what is available goes into the next batch: maxOffsetsPerTrigger and minOffsetsPerTrigger. Pure.

The share of a partition is proportional to what waits in it, so that all of them end at about the same time; but every
partition with news gets something in every batch that has room for all, so that a quiet one is never starved by a loud
one. The sum of the shares is the limit exactly, or everything when that is less.
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
    """Where a batch of at most `offsets_max` offsets ends. A partition missing in `start` starts at 0."""
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
    # What rounding left over is less than one for each partition.
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
    """Whether a batch is due: as many offsets wait as were asked for, or some have waited long enough."""
    waiting_count = sum(max(0, end - start.get(at, 0)) for at, end in latest.items())
    if offsets_min is None or waiting_count >= offsets_min:
        return True
    return waiting_count > 0 and waited_ms >= delay_ms_max
