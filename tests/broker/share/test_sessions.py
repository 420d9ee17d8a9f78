"""Share sessions: their epochs, their bound and the memory that they are counted with."""

from __future__ import annotations

from collections.abc import Callable

from chronik.broker.share.sessions import EPOCH_MAX, PARTITION_BYTES, SESSION_BYTES, Place, ShareSession, ShareSessions
from chronik.runtime.pieces import at_once
from chronik.wire.error_codes import ErrorCode

PLACES = [Place(b"t" * 16, index) for index in range(4)]


class Connection:
    def __init__(self) -> None:
        self.on_lost: dict[Callable[[], None], None] = {}
        self.is_lost = False

    def lose(self) -> None:
        self.is_lost = True
        for call in list(self.on_lost):
            call()


class Table:
    def __init__(self, sessions_max: int = 3, held_bytes_max: int = 1 << 30) -> None:
        self.held_bytes = 0
        self.ended: list[ShareSession] = []
        self.sessions = ShareSessions(lambda: sessions_max, self.ended.append, held_bytes_max, self.hold)

    def hold(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes

    def begin(self, member: str, connection: Connection | None = None, count: int = 2) -> ShareSession | ErrorCode:
        return at_once(self.sessions.begin("g", member, connection or Connection(), PLACES[:count]))


def opened(session: ShareSession | ErrorCode) -> ShareSession:
    assert isinstance(session, ShareSession)
    return session


def test_each_request_has_the_next_epoch() -> None:
    table = Table()
    session = opened(table.begin("a"))
    go_on = table.sessions.go_on
    assert at_once(go_on("g", "a", 2)) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert at_once(go_on("g", "a", 1)) is session
    assert at_once(go_on("g", "a", 1)) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert at_once(go_on("g", "b", 1)) is ErrorCode.SHARE_SESSION_NOT_FOUND
    session.epoch = EPOCH_MAX
    assert at_once(go_on("g", "a", EPOCH_MAX)) is session
    assert session.epoch == 1


def test_a_session_that_begins_again_replaces_the_one_before_and_its_connection() -> None:
    """The loss of the older connection must not end the newer session."""
    table, older, newer = Table(), Connection(), Connection()
    first = opened(table.begin("a", older))
    second = opened(table.begin("a", newer))
    assert (first.is_open, second.is_open, len(table.sessions)) == (False, True, 1)
    older.lose()
    assert second.is_open
    assert not table.ended
    newer.lose()
    assert table.ended == [second]
    assert (len(table.sessions), table.sessions.has_members("g"), table.held_bytes) == (0, False, 0)


def test_no_session_makes_room_for_another() -> None:
    table = Table(sessions_max=2)
    first, _ = opened(table.begin("a")), opened(table.begin("b"))
    assert table.begin("c") is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert opened(table.begin("b")).is_open, "its own former one does not count"
    table.sessions.close(first)
    assert opened(table.begin("c")).is_open


def test_sessions_are_counted_with_what_they_name() -> None:
    room_bytes = 2 * SESSION_BYTES + 5 * PARTITION_BYTES
    table = Table(held_bytes_max=room_bytes)
    session = opened(table.begin("a", count=2))
    assert table.held_bytes == SESSION_BYTES + 2 * PARTITION_BYTES
    assert at_once(table.sessions.go_on("g", "a", 1, PLACES[2:4], PLACES[:1])) is session
    assert table.held_bytes == SESSION_BYTES + 3 * PARTITION_BYTES
    assert table.begin("b", count=3) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert opened(table.begin("b", count=2)).is_open
    assert at_once(table.sessions.go_on("g", "a", 2, PLACES[:1])) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    for name in "ab":
        found = table.sessions.get("g", name)
        assert found is not None
        table.sessions.close(found)
    assert table.held_bytes == 0


def test_a_connection_that_is_lost_already_opens_nothing() -> None:
    table, gone = Table(), Connection()
    gone.lose()
    assert table.begin("a", gone) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(table.sessions) == 0


def test_a_partition_is_told_about_when_it_is_new_has_records_or_an_error_and_once_when_that_has_passed() -> None:
    table = Table()
    session = opened(table.begin("a", count=1))
    at_once(table.sessions.go_on("g", "a", 1, PLACES[1:2]))

    def tells(place: Place, *, error: bool = False, records: bool = False) -> bool:
        return session.must_tell(place, is_error=error, has_records=records)

    assert not tells(PLACES[0])
    assert tells(PLACES[0], records=True)
    assert [tells(PLACES[1]), tells(PLACES[1])] == [True, False]
    assert [tells(PLACES[0], error=True), tells(PLACES[0]), tells(PLACES[0])] == [True, True, False]
