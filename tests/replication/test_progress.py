"""When a follower counts as lagging: if it does not reach a goal in time, however many records it lacks."""

from __future__ import annotations

from chronik.replication.progress import FollowerProgress
from tests.replication.small import KEY, Session

MS = 1_000_000
LAG_NS = 100 * MS


def progress_at(end_offset: int, heard_ms: int = 0) -> FollowerProgress:
    session = Session(2)
    session.heard_ns = heard_ms * MS
    progress = FollowerProgress(KEY, session)  # type: ignore[arg-type]
    progress.end_offset = end_offset
    return progress


def test_a_follower_that_always_gets_where_the_log_was_does_not_lag() -> None:
    """Under load it is behind at every check, and still keeps up."""
    progress = progress_at(0)
    for step in range(1, 50):
        now_ns = step * 40 * MS
        progress.session.heard_ns = now_ns
        assert not progress.lags(step * 10, now_ns, LAG_NS)
        progress.end_offset = step * 10 - 1 if step % 2 else step * 10


def test_a_follower_that_does_not_get_there_lags() -> None:
    """It fetches, but never reaches the end offset that it was first seen to lack."""
    progress = progress_at(5)
    for now_ms, lags in ((40, False), (80, False), (139, False), (141, True)):
        progress.session.heard_ns = now_ms * MS
        assert progress.lags(9, now_ms * MS, LAG_NS) is lags


def test_silence_is_lagging_even_with_nothing_to_fetch() -> None:
    """An in-sync replica that is gone must not be found out only by the next write."""
    progress = progress_at(9, heard_ms=10)
    assert not progress.lags(9, 100 * MS, LAG_NS)
    assert progress.lags(9, 111 * MS, LAG_NS)


def test_an_idle_partition_that_is_written_to_gets_its_full_time() -> None:
    """Nothing was to reach for an hour; the clock starts with the write, or the first look after it."""
    progress = progress_at(9)
    hour_ns = 3_600_000 * MS
    progress.session.heard_ns = hour_ns
    assert not progress.lags(9, hour_ns, LAG_NS)
    progress.session.heard_ns = 2 * hour_ns
    assert not progress.lags(10, 2 * hour_ns, LAG_NS)
