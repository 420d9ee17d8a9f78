"""The last stable offset, with any number of ended transactions whose markers are not committed yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.producer_state import ProducerState
from tests.storage.driving import append, batch, marker, open_logs, run, topic_id

PRODUCERS = 2


STEPS = st.sampled_from(["write", "end", "settle", "later", "reload"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 60)), min_size=10, max_size=60))
def test_it_is_the_first_record_of_all_that_are_undecided(steps: list[tuple[str, int]]) -> None:
    """As a search through all of them finds it."""
    state, offset, high_watermark = ProducerState(), 0, 0
    for step, number in steps:
        producer_id = number % PRODUCERS
        match step:
            case "write":
                producer = state.producers.get(producer_id)
                sequence = 0 if producer is None else producer.last_sequence + 1
                state.append(producer_id, 0, sequence, sequence, offset, offset, 1, transactional=True)
                offset += 1
            case "end":
                state.end_transaction(producer_id, 0, 0, offset, 1, committed=True)
                offset += 1
            case "settle":
                high_watermark = max(high_watermark, number % (offset + 1))
            case "later":
                for first, marker in [each for each in state._ended if each[0] < number <= each[1]][:1]:
                    state.began_later(marker, None if number == marker else max(first, number))
            case "reload":
                state = ProducerState.decode(state.encode())
        stable = state.last_stable_offset(high_watermark)
        undecided = [first for first, _ in state._ended] + list(state._open.values())
        assert stable == min([high_watermark, *undecided])


def ended_but_undecided() -> ProducerState:
    """Two transactions have ended, and no marker is committed. The one that ended last began first."""
    state = ProducerState()
    state.append(1, 0, 0, 0, 0, 0, 1, transactional=True)
    state.append(2, 0, 0, 0, 1, 1, 1, transactional=True)
    state.end_transaction(2, 0, 0, 2, 1, committed=False)
    state.end_transaction(1, 0, 0, 3, 1, committed=True)
    return state


def test_a_restart_moves_it_neither_way() -> None:
    """Further on, readers would see records of a transaction whose marker may still be cut."""
    state = ProducerState.decode(ended_but_undecided().encode())
    assert [state.last_stable_offset(high_watermark) for high_watermark in (1, 2, 3, 4)] == [0, 0, 0, 4]


def test_a_log_that_begins_again_has_nothing_undecided() -> None:
    """It may begin at a lower offset, where readers would wait for a marker that never comes."""
    state = ended_but_undecided()
    state.clear()
    assert state.last_stable_offset(2) == 2


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_cut_behind_a_marker_leaves_it_where_it_was(has_snapshot: bool) -> None:
    """The producers are loaded from the last checkpoint, or read again from the log."""

    async def story() -> None:
        logs = await open_logs(SimDisk(0))
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"a"], producer=(1, 0, 0), transactional=True))
        append(log, marker(1, 0, committed=True))
        if has_snapshot:
            log.snapshot = (log.end_offset, log.producers.encode())
        append(log, batch([b"b"]))
        log.truncate_to(2)
        assert [log.last_stable_offset(high_watermark) for high_watermark in (1, 2)] == [0, 2]
        await logs.close()

    run(story)
