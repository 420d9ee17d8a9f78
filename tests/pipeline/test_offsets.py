"""Positions in the checkpoint and the ranges between them; how much goes into a batch; how a batch becomes tasks."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.topology import TopicPartition
from chronik.pipeline.admission import is_enough, limited
from chronik.pipeline.errors import CONDITIONS, PipelineError
from chronik.pipeline.offsets import OffsetRange, Position, ranges
from chronik.pipeline.splitting import TASK_RECORDS_MAX, grouped, split

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": "idOfA", "b": "idOfB"}


def test_a_position_has_the_form_that_checkpoints_hold() -> None:
    """Checkpoints outlive versions: this text is a format."""
    position = Position({"a": "idOfA"}, {A1: 7, A0: 5}, began={A1: 3})
    text = json.dumps(position.to_json())
    assert text == '{"a": {"id": "idOfA", "offsets": {"0": 5, "1": 7}, "began": {"1": 3}}}'
    assert Position.from_json(json.loads(text)) == position
    initial = Position({"a": "idOfA"}, {A0: 5}, is_initial=True)
    assert initial.to_json() == {"a": {"id": "idOfA", "offsets": {"0": 5}, "initial": True}}
    assert Position.from_json(initial.to_json()) == initial


@pytest.mark.parametrize("text", ['{"a": {"0": 5}}', '{"a": 5}', '{"a": {"id": "x", "offsets": {"zero": 1}}}', "[1]"])
def test_offsets_of_another_source_are_refused(text: str) -> None:
    """Somebody points the query at a checkpoint that Spark's own Kafka source has written."""
    with pytest.raises(PipelineError) as refused:
        Position.from_json(json.loads(text))
    assert refused.value.condition == "INVALID_OFFSETS"


def test_ranges_are_what_lies_between() -> None:
    """In order, with the id of the topic, and nothing for a partition without news."""
    start = Position(IDS, {A0: 5, A1: 7, B0: 1})
    end = Position(IDS, {A0: 9, A1: 7, B0: 2})
    assert ranges(start, end) == [OffsetRange("a", "idOfA", 0, 5, 9), OffsetRange("b", "idOfB", 0, 1, 2)]


def test_the_first_batch_begins_where_its_end_says_whatever_the_options_say_by_now() -> None:
    """After a restart `latest` is later: reading from there would lose what the first batch had planned to read."""
    planned = Position({"a": "idOfA"}, {A0: 9}, began={A0: 5})
    after_restart = Position({"a": "idOfA"}, {A0: 12}, is_initial=True)
    assert ranges(after_restart, planned) == [OffsetRange("a", "idOfA", 0, 5, 9)]


def test_a_new_partition_begins_where_the_end_says_and_a_known_one_where_it_was() -> None:
    """`began` must not overrule what the checkpoint says of a partition that was read before."""
    start = Position({"a": "idOfA"}, {A0: 5})
    end = Position({"a": "idOfA"}, {A0: 9, A1: 4}, began={A0: 0, A1: 2})
    assert ranges(start, end) == [OffsetRange("a", "idOfA", 0, 5, 9), OffsetRange("a", "idOfA", 1, 2, 4)]


def test_a_topic_made_anew_is_refused() -> None:
    """The offsets of the old one mean nothing in the new one."""
    with pytest.raises(PipelineError) as refused:
        ranges(Position({"a": "old"}, {A0: 5}), Position({"a": "new"}, {A0: 9}))
    assert refused.value == PipelineError("TOPIC_ID_CHANGED", topic="a", before="old", after="new")


def test_an_error_survives_pickling_and_every_condition_has_words() -> None:
    """Spark's processes exchange errors as pickles."""
    error = PipelineError("TOPIC_ID_CHANGED", topic="a", before="old", after="new")
    assert pickle.loads(pickle.dumps(error)) == error
    assert error != PipelineError("TOPIC_ID_CHANGED", topic="a", before="old", after="newer")
    assert all(words and not words.endswith(".") for words in CONDITIONS.values())


POSITIONS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(0, 10_000)),
    min_size=1,
)


@given(POSITIONS, st.integers(1, 5000))
def test_a_batch_has_as_many_offsets_as_allowed_and_starves_nobody(
    drawn: dict[TopicPartition, tuple[int, int]], offsets_max: int
) -> None:
    """Exactly the limit, or all there is; never behind the start or past the end; something of each if it can be."""
    start = {at: first for at, (first, _) in drawn.items()}
    latest = {at: first + count for at, (first, count) in drawn.items()}
    end = limited(start, latest, offsets_max)
    taken = {at: end[at] - start[at] for at in start}
    assert sum(taken.values()) == min(offsets_max, sum(count for _, count in drawn.values()))
    assert all(0 <= taken[at] <= drawn[at][1] for at in taken)
    waiting = [at for at in drawn if drawn[at][1]]
    if offsets_max >= len(waiting):
        assert all(taken[at] for at in waiting)


def test_shares_are_proportional_to_what_waits() -> None:
    """Partitions that end together keep all tasks busy to the end."""
    assert limited({A0: 0, A1: 0}, {A0: 9000, A1: 1000}, 1000) == {A0: 900, A1: 100}
    assert limited({A0: 5}, {A0: 5, A1: 100}, 10) == {A0: 5, A1: 10}


@pytest.mark.parametrize(
    ("waiting", "waited_ms", "due"),
    [(0, 99_999, False), (9, 0, False), (9, 999, False), (9, 1000, True), (10, 0, True)],
)
def test_a_small_batch_waits_until_it_is_large_or_late_enough(waiting: int, waited_ms: int, due: bool) -> None:
    """minOffsetsPerTrigger with maxTriggerDelay; an empty batch is never due."""
    asked = {"offsets_min": 10, "waited_ms": waited_ms, "delay_ms_max": 1000}
    assert is_enough({A0: 100}, {A0: 100 + waiting}, **asked) == due
    assert is_enough({A0: 100}, {A0: 100 + waiting}, offsets_min=None, waited_ms=0, delay_ms_max=0)


RANGES = st.lists(
    st.builds(
        lambda partition, start, size: OffsetRange("a", "idOfA", partition, start, start + size),
        st.integers(0, 9),
        st.integers(0, 1000),
        st.integers(1, 3000),
    ),
    min_size=1,
    max_size=6,
)


@given(RANGES, st.none() | st.integers(1, 50), st.none() | st.integers(1, 500))
def test_tasks_cover_every_offset_once_and_keep_the_limits(
    whole: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> None:
    """Whatever the options, a batch reads what it was planned to read."""
    tasks = split(whole, partitions_min=partitions_min, records_max=records_max)
    covered = [(each.partition, offset) for each in tasks for offset in range(each.start, each.end)]
    assert covered == [(each.partition, offset) for each in whole for offset in range(each.start, each.end)]
    assert all(task.size > 0 for task in tasks)
    if records_max:
        assert all(task.size <= records_max for task in tasks)
    if partitions_min:
        assert len(tasks) >= min(partitions_min, len(covered))
    if not partitions_min and not records_max:
        assert tasks == whole


def test_a_large_range_gets_more_of_the_tasks() -> None:
    """Otherwise one slow task would hold up the batch."""
    large, small = OffsetRange("a", "i", 0, 0, 900), OffsetRange("a", "i", 1, 0, 100)
    tasks = split([large, small], partitions_min=10)
    assert [task.partition for task in tasks] == [0] * 9 + [1]
    assert {task.size for task in tasks} == {100}


@given(RANGES, st.none() | st.integers(1, 8), st.none() | st.integers(1, 500))
def test_ranges_of_few_records_share_a_task(
    ranges: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> None:
    """A task has a fixed cost, so fifty partitions of four records must not be fifty tasks. The options still hold."""
    groups = grouped(ranges, partitions_min=partitions_min, records_max=records_max)
    assert [each for group in groups for each in group] == ranges
    limit = min(TASK_RECORDS_MAX, records_max or TASK_RECORDS_MAX)
    assert all(sum(each.size for each in group) <= limit for group in groups if len(group) > 1)
    if partitions_min:
        assert len(groups) >= min(partitions_min, len(ranges))
    else:
        sizes = [sum(each.size for each in group) for group in groups]
        assert all(size + following[0].size > limit for size, following in zip(sizes, groups[1:], strict=False))
