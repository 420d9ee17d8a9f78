"""Records of several partitions by time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.cli.merging import WAITING_BYTES_MAX, TimeMerge
from chronik.client.topology import TopicPartition
from chronik.wire.records import Record

LOGS = st.lists(st.lists(st.integers(0, 20), max_size=12).map(sorted), min_size=1, max_size=4)


def at(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


@given(LOGS, st.randoms())
def test_whatever_arrives_first_the_order_is_that_of_time(logs: list[list[int]], random: object) -> None:
    """Brokers answer in any order and in portions of any size; the output must not depend on it."""
    merge, left = (
        TimeMerge(),
        {at(i): [Record(o, t, None, b"") for o, t in enumerate(log)] for i, log in enumerate(logs)},
    )
    given_out = []
    while any(left.values()):
        chosen = random.choice([each for each, records in left.items() if records])  # type: ignore[attr-defined]
        size = random.randint(1, len(left[chosen]))  # type: ignore[attr-defined]
        merge.add(chosen, left[chosen][:size])
        del left[chosen][:size]
        given_out += merge.take([each for each, records in left.items() if records])
    given_out += merge.take([])
    assert [record.timestamp for _, record in given_out] == sorted(time for log in logs for time in log)
    for index, log in enumerate(logs):
        assert [record.offset for place, record in given_out if place == at(index)] == list(range(len(log)))


def test_records_that_go_back_in_time_keep_their_place() -> None:
    """The order within a partition is a promise; clocks are not."""
    merge = TimeMerge()
    merge.add(at(0), [Record(0, 5, None, b""), Record(1, 1, None, b"")])
    merge.add(at(1), [Record(0, 3, None, b"")])
    assert [(place.partition, record.offset) for place, record in merge.take([])] == [(1, 0), (0, 0), (0, 1)]


def test_a_partition_that_is_far_ahead_is_named_until_it_was_given_out() -> None:
    """Otherwise one silent partition would bring all others into memory."""
    merge = TimeMerge()
    merge.add(at(0), [Record(0, 1, None, bytes(WAITING_BYTES_MAX)), Record(1, 2, None, b"")])
    assert (list(merge.take([at(1)])), merge.full()) == ([], [at(0)])
    merge.add(at(1), [Record(0, 9, None, b"")])
    assert len(list(merge.take([at(1)]))) == 3
    assert merge.full() == []
