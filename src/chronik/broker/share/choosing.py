"""Which of the records that could be acquired are: a whole batch where possible, a single one where one may be poison.

In batch-optimized mode a member gets whole batches, and may get more records than it asked for by the last of them. In
record-limit mode (KIP-1206) it never gets more.

A record that cannot be processed takes the others of its batch with it, each time they are delivered together. So from
half of the deliveries allowed on, the acquired batch is halved with each delivery, and the last attempt is for one
record alone: what can be processed is, and only the poisonous record is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from chronik.broker.share.runs import Span

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1  # as requests say it
ISOLATED_FROM_MIN: Final = 2  # deliveries
Available = tuple[Span, int, Span]  # offsets, delivery count, the batch that they were acquired with


class Choice(NamedTuple):
    """What a member asks for, and what its group allows."""

    fetch_offset: int
    records_max: int
    mode: int
    batch_size: int  # new records are acquired in batches of about this size
    delivery_count_max: int
    locks_max: int
    taken_count: int = 0  # records of this partition that the same response already has


class Chosen(NamedTuple):
    span: Span
    batch: Span  # that it belongs to from now on


def choose_delivered(
    available: Sequence[Available], batches: Sequence[Span], choice: Choice
) -> tuple[list[Chosen], bool]:
    """Of records between start and end. True: some of them may be poison, so nothing else goes with them."""
    chosen: list[Chosen] = []
    taken = 0
    isolated_from = max(ISOLATED_FROM_MIN, -(-choice.delivery_count_max // 2))
    for (batch, is_new), group in groupby(available, lambda each: (each[2], each[1] == 0)):
        left = choice.records_max - taken
        if left <= 0:
            break
        parts = list(group)
        if is_new:  # after a failover: nobody knows of an earlier delivery
            more = []
            for span, _, _ in parts:
                if left > 0:
                    spans = choose_new(span, batches, choice, left)
                    more += [Chosen(each, each) for each in spans]
                    left -= sum(each.size for each in spans)
        else:
            is_isolated = max(count for _, count, _ in parts) >= isolated_from
            if is_isolated and (taken or choice.taken_count):
                return chosen, True
            if is_isolated:
                return _isolated(parts, choice, isolated_from), True
            more = _whole(parts, batch, left if choice.mode == RECORD_LIMIT else None)
        chosen += more
        taken += sum(each.span.size for each in more)
    return chosen, False


def _whole(parts: Iterable[Available], batch: Span, records_max: int | None) -> list[Chosen]:
    chosen: list[Chosen] = []
    for span, _, _ in parts:
        if records_max is not None:
            if records_max <= 0:
                break
            span = Span(span.first, min(span.last, span.first + records_max - 1))
            records_max -= span.size
        chosen.append(Chosen(span, batch))
    return chosen


def _isolated(parts: Iterable[Available], choice: Choice, isolated_from: int) -> list[Chosen]:
    chosen: list[Chosen] = []
    taken, records_max = 0, choice.records_max if choice.mode == RECORD_LIMIT else None
    is_halved = False
    for span, count, batch in parts:
        if count >= choice.delivery_count_max - 1:
            return chosen or [Chosen(Span(span.first, span.first), batch)]
        if count >= isolated_from and not is_halved:
            is_halved = True
            half = max(1, batch.size >> (count - isolated_from + 1))
            records_max = half if records_max is None else min(records_max, half)
        first, last = span
        if records_max is not None:
            last = min(last, first + records_max - taken - 1)
        if last < first:
            break
        chosen.append(Chosen(Span(first, last), batch))
        taken += last - first + 1
    return chosen


def choose_new(span: Span, batches: Sequence[Span], choice: Choice, records_max: int) -> list[Span]:
    """Of records that were never acquired: how far, and in which batches they are acquired."""
    first, last = span
    if records_max < span.size:
        last = first + records_max - 1
        if choice.mode != RECORD_LIMIT:
            last = min(span.last, end_of_batch(batches, last))
    if choice.mode == RECORD_LIMIT or last - first + 1 <= choice.batch_size:
        return [Span(first, last)]
    spans = []
    for each in batches:
        if first < each.first <= last and each.first - first >= choice.batch_size:
            spans.append(Span(first, each.first - 1))
            first = each.first
    return [*spans, Span(first, last)]


def end_of_batch(batches: Sequence[Span], offset: int) -> int:
    """Of the one that holds the offset; the offset itself if none does."""
    return next((each.last for each in batches if each.first <= offset <= each.last), offset)
