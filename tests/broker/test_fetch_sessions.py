"""Fetch sessions (KIP-227) as a specification: which are kept, what responses contain, and who must start again."""

from __future__ import annotations

from itertools import count

import pytest

from chronik.broker.fetch_sessions import EPOCH_MAX, PARTITION_BYTES, FetchSession, FetchSessions, Wanted
from chronik.runtime.pieces import at_once
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

ZERO = bytes(16)


def sessions(sessions_max: int = 3) -> FetchSessions:
    ids = count(1)
    return FetchSessions(sessions_max, lambda bound: next(ids))


def request(session_id: int = 0, epoch: int = 0, *partitions: int, forget: tuple[int, ...] = ()) -> FetchRequest:
    topics = [
        FetchTopic(
            topic="t",
            partitions=[FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in partitions],
        )
    ]
    forgotten = [ForgottenTopic(topic="t", partitions=list(forget))] if forget else []
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if partitions else [],
        forgotten_topics_data=forgotten,
    )


def opened(table: FetchSessions, asked: FetchRequest, *, by_id: bool = False) -> tuple[FetchSession, list[int]]:
    found = table.open(asked, by_id=by_id)
    assert not isinstance(found, ErrorCode), found
    session, wanted = found
    assert session is not None
    return session, [each.partition.partition for each in wanted]


def answer(index: int, high_watermark: int = 5, records: bytes = b"", error: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=records,
    )


def wanted(index: int) -> Wanted:
    return Wanted("t", ZERO, FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1))


def test_a_request_without_a_session_is_answered_in_full_and_forgotten() -> None:
    table = sessions()
    found = table.open(request(0, -1, 0, 1), by_id=False)
    assert not isinstance(found, ErrorCode)
    assert found[0] is None
    assert [each.partition.partition for each in found[1]] == [0, 1]
    assert len(table) == 0


def test_many_partitions_are_opened_in_pieces_as_few_are_at_once() -> None:
    for epoch in (0, -1):
        table, other = sessions(), sessions()
        at_once_found = table.open(request(0, epoch, *range(100)), by_id=False)
        found = at_once(other.opening(request(0, epoch, *range(100)), by_id=False))
        assert not isinstance(found, ErrorCode)
        assert not isinstance(at_once_found, ErrorCode)
        assert found[1] == at_once_found[1]
        assert len(table) == len(other)


def test_a_session_remembers_its_partitions_and_counts_its_epochs() -> None:
    table = sessions()
    session, partitions = opened(table, request(0, 0, 0, 1, 2))
    assert (session.session_id, partitions) == (1, [0, 1, 2])
    assert opened(table, request(1, 1)) == (session, [0, 1, 2])
    assert opened(table, request(1, 2, 3)) == (session, [0, 1, 2, 3])


def test_a_named_partition_replaces_what_was_said_of_it_before() -> None:
    table = sessions()
    opened(table, request(0, 0, 0, 1))
    changed = request(1, 1, 0)
    changed.topics[0].partitions[0].fetch_offset = 77
    session, _ = opened(table, changed)
    assert session.wanted["t", ZERO, 0].partition.fetch_offset == 77
    assert session.wanted["t", ZERO, 1].partition.fetch_offset == 0


def test_forgotten_partitions_are_served_no_more() -> None:
    table = sessions()
    opened(table, request(0, 0, 0, 1, 2))
    assert opened(table, request(1, 1, forget=(1, 9)))[1] == [0, 2]


@pytest.mark.parametrize("epoch", [2, 3, 7, EPOCH_MAX])
def test_a_wrong_epoch_is_refused_and_changes_nothing(epoch: int) -> None:
    """A request that was lost or came twice: answering it would tell the client of changes it never saw."""
    table = sessions()
    session, _ = opened(table, request(0, 0, 0))
    assert table.open(request(1, epoch, 5), by_id=False) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert opened(table, request(1, 1)) == (session, [0])


def test_an_epoch_is_good_once() -> None:
    table = sessions()
    opened(table, request(0, 0, 0))
    opened(table, request(1, 1))
    assert table.open(request(1, 1), by_id=False) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epochs_start_again_at_one() -> None:
    """Zero means "begin", so the counter skips it."""
    table = sessions()
    session, _ = opened(table, request(0, 0, 0))
    session.epoch = EPOCH_MAX
    opened(table, request(1, EPOCH_MAX))
    assert session.epoch == 1
    opened(table, request(1, 1))


def test_an_unknown_session_is_refused() -> None:
    assert sessions().open(request(9, 1), by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_does_not_mix_names_and_ids() -> None:
    table = sessions()
    opened(table, request(0, 0, 0))
    assert table.open(request(1, 1), by_id=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    opened(table, request(1, 1))


def test_closing_and_beginning_anew_end_the_old_session() -> None:
    table = sessions()
    opened(table, request(0, 0, 0))
    assert opened(table, request(1, 0, 4))[0].session_id == 2
    assert len(table) == 1
    table.open(request(2, -1, 0), by_id=False)
    assert len(table) == 0
    assert table.open(request(2, 1), by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_longest_unused_session_makes_room() -> None:
    """However many begin, the table stays bounded, and those in use stay in it."""
    table = sessions(2)
    opened(table, request(0, 0, 0))
    opened(table, request(0, 0, 0))
    opened(table, request(1, 1))
    opened(table, request(0, 0, 0))
    assert len(table) == 2
    assert table.open(request(2, 1), by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    opened(table, request(1, 2))
    for _ in range(100):
        opened(table, request(0, 0, 0))
    assert len(table) == 2


def test_without_room_for_sessions_everybody_is_served_without() -> None:
    found = sessions(0).open(request(0, 0, 0, 1), by_id=False)
    assert not isinstance(found, ErrorCode)
    assert found[0] is None
    assert len(found[1]) == 2


def test_only_news_is_told() -> None:
    session = FetchSession(1, by_id=False)
    assert session.is_news(wanted(0), answer(0))
    assert not session.is_news(wanted(0), answer(0))
    assert session.is_news(wanted(0), answer(0, records=b"x"))
    assert session.is_news(wanted(0), answer(0, high_watermark=6))
    assert not session.is_news(wanted(0), answer(0, high_watermark=6))


def test_an_error_is_told_as_long_as_it_lasts_and_so_is_its_end() -> None:
    session = FetchSession(1, by_id=False)
    session.is_news(wanted(0), answer(0))
    for _ in range(3):
        assert session.is_news(wanted(0), answer(0, error=ErrorCode.KAFKA_STORAGE_ERROR))
    assert session.is_news(wanted(0), answer(0))
    assert not session.is_news(wanted(0), answer(0))


def test_who_was_served_goes_to_the_end_of_the_line() -> None:
    """Or with a small byte limit the first partition would starve the others."""
    table = sessions()
    session, _ = opened(table, request(0, 0, 0, 1, 2))
    session.served(wanted(0))
    assert opened(table, request(1, 1))[1] == [1, 2, 0]
    session.served(wanted(9))
    assert opened(table, request(1, 2))[1] == [1, 2, 0]


def test_sessions_hold_no_more_memory_than_they_may() -> None:
    """A thousand sessions of twenty thousand partitions each would be twelve gigabytes. The longest unused go first."""
    held = [0]

    def hold(more_bytes: int) -> None:
        held[0] += more_bytes

    ids = count(1)
    table = FetchSessions(1000, lambda bound: next(ids), 100 * PARTITION_BYTES, hold)
    for _ in range(50):
        opened(table, request(0, 0, *range(30)))
        assert held[0] <= 100 * PARTITION_BYTES
    assert len(table) == 3
    session, _ = opened(table, request(50, 1, *range(30, 90)))
    assert (len(table), held[0]) == (1, 90 * PARTITION_BYTES)
    assert session.session_id == 50
    table.open(request(50, -1), by_id=False)
    assert held[0] == 0


def test_a_session_too_large_for_the_memory_is_served_without_one() -> None:
    """The client gets its partitions, and the id that means "no session". A session that grows is refused."""
    table = FetchSessions(1000, lambda bound: 7, 100 * PARTITION_BYTES)
    found = table.open(request(0, 0, *range(101)), by_id=False)
    assert not isinstance(found, ErrorCode)
    assert found[0] is None
    assert len(found[1]) == 101
    assert len(table) == 0
    opened(table, request(0, 0, *range(100)))
    assert table.open(request(7, 1, 100), by_id=False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(table) == 0


def test_a_session_that_forgets_partitions_holds_less() -> None:
    table = FetchSessions(1000, lambda bound: 7, 100 * PARTITION_BYTES)
    session, _ = opened(table, request(0, 0, *range(100)))
    opened(table, request(7, 1, forget=tuple(range(50))))
    assert session.held_bytes == 50 * PARTITION_BYTES


def test_a_session_that_made_room_while_its_request_was_read_is_not_counted() -> None:
    """A long request is processed in slices. Bytes that are counted for a dropped session would never be released, and
    finally no client could have a session."""
    held: list[int] = []
    ids = count(1)
    table = FetchSessions(1, lambda bound: next(ids), 2**63, held.append)
    opening = table.opening(request(0, 0, *range(100)), by_id=False)
    next(opening)
    other = table.open(request(0, 0, 1), by_id=False)
    assert isinstance(other, tuple)
    assert other[0] is not None
    session, wanted = at_once(opening)
    assert (session, len(wanted)) == (None, 100), "it is answered, and told that it has no session"
    assert table.open(request(other[0].session_id, -1), by_id=False) == (None, [])
    assert sum(held) == 0
