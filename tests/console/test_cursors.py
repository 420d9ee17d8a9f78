"""Positions between records: the same place from both sides, whatever partitions, gaps and times there are."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.console.cursors import (
    Read,
    bounded,
    bucket_edges,
    counts_between,
    cursor_text,
    page_backward,
    page_forward,
    parse_cursor,
)
from chronik.console.errors import ConsoleError
from chronik.wire.records import Record


def records(*offsets_and_times: tuple[int, int]) -> list[Record]:
    return [Record(offset, time, None, b"") for offset, time in offsets_and_times]


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), min_size=1, max_size=200))
def test_a_cursor_survives_a_url(positions: dict[int, int]) -> None:
    assert parse_cursor(cursor_text(positions)) == positions


@pytest.mark.parametrize("text", ["", "0", "0:", ":1", "0:1,", "0:-1", "a:1", "0:1;1:2", "0:1,0:2", "٣:1", "0:1\n"])
def test_anything_else_is_no_cursor(text: str) -> None:
    with pytest.raises(ConsoleError) as refused:
        parse_cursor(text)
    assert refused.value.code == "BAD_CURSOR"


def test_partitions_are_merged_by_time() -> None:
    reads = {0: Read(0, 2, records((0, 10), (1, 30))), 1: Read(5, 7, records((5, 20), (6, 40)))}
    page = page_forward(reads, 3)
    assert [(partition, record.offset) for partition, record in page.records] == [(0, 0), (1, 5), (0, 1)]
    assert page.next == {0: 2, 1: 6}
    assert page.previous == {0: 0, 1: 5}


def test_the_order_of_a_partition_is_never_changed() -> None:
    """Producers may set times that run backward."""
    reads = {0: Read(0, 3, records((0, 50), (1, 10), (2, 20))), 1: Read(0, 1, records((0, 30)))}
    page = page_forward(reads, 10)
    assert [(partition, record.offset) for partition, record in page.records] == [(1, 0), (0, 0), (0, 1), (0, 2)]


def test_a_page_read_backward_ends_where_it_began() -> None:
    reads = {0: Read(0, 3, records((0, 10), (1, 20), (2, 30)))}
    page = page_backward(reads, 2)
    assert [record.offset for _, record in page.records] == [1, 2]
    assert (page.previous, page.next) == ({0: 1}, {0: 3})


def test_gaps_between_offsets_are_passed_over() -> None:
    """Compaction and the markers of transactions leave them; a page must not stop there for ever."""
    page = page_forward({0: Read(0, 100, records((7, 1), (50, 2)))}, 1)
    assert page.next == {0: 50}
    assert page_forward({0: Read(50, 100, records((50, 2)))}, 5).next == {0: 100}


logs = st.dictionaries(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=12),
    min_size=1,
)


@given(logs, st.integers(1, 5), st.booleans())
def test_paging_shows_every_record_once(shape: dict[int, list[tuple[int, int]]], limit: int, backward: bool) -> None:
    """From one end to the other, in either direction, by nothing but the cursors of the pages."""
    full: dict[int, list[Record]] = {}
    for partition, steps in shape.items():
        offset, full[partition] = 0, []
        for step, time in steps:
            offset += step
            full[partition].append(Record(offset, time, None, b""))
    ends = {partition: each[-1].offset + 1 if each else 0 for partition, each in full.items()}
    positions = dict(ends) if backward else dict.fromkeys(full, 0)
    seen: list[tuple[int, int]] = []
    for _ in range(sum(map(len, full.values())) + 2):
        if backward:
            reads = {
                at: Read(0, positions[at], [each for each in full[at] if each.offset < positions[at]]) for at in full
            }
            page = page_backward(reads, limit)
            positions = page.previous
        else:
            reads = {
                at: Read(positions[at], ends[at], [each for each in full[at] if each.offset >= positions[at]])
                for at in full
            }
            page = page_forward(reads, limit)
            positions = page.next
        seen += [(partition, record.offset) for partition, record in page.records]
    assert sorted(seen) == sorted((at, each.offset) for at, some in full.items() for each in some)
    assert positions == (dict.fromkeys(full, 0) if backward else ends)


def test_positions_are_moved_into_the_log() -> None:
    """A link may be older than retention, or than the topic that has its name now."""
    bounds = {0: (10, 20), 1: (0, 5)}
    assert bounded({0: 3, 1: 99, 7: 1}, bounds) == {0: 10, 1: 5}


@given(st.integers(0, 10**13), st.integers(0, 10**10), st.integers(1, 240))
def test_buckets_cover_the_range_and_are_whole_seconds(start: int, span: int, buckets: int) -> None:
    edges = bucket_edges(start, start + span, buckets)
    steps = {after - before for before, after in itertools.pairwise(edges)}
    assert edges[0] == start
    assert edges[-1] > start + span
    assert 1 <= len(edges) - 1 <= buckets
    assert len(steps) == 1
    assert steps.pop() % 1_000 == 0


def test_a_log_whose_times_run_backward_has_no_negative_count() -> None:
    assert counts_between([[0, 5, 3, 9], [0, 1, 2, 3]]) == [6, 1, 7]
