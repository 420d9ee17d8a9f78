"""Share sessions: what a member fetches from this node. It names its partitions once, then only what changes.

A session belongs to a member of a group, not to a connection; but when the connection ends that opened it, the session
ends, and so does the member's hold on its records: nobody else may wait for a member that is gone. A request carries
the session's epoch, which counts requests, so one that is repeated or lost is noticed.

Unlike fetch sessions these make no room for each other: a member without a session holds no records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from chronik.runtime.invariants import broken
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode

EPOCH_FINAL, EPOCH_INITIAL, EPOCH_MAX = -1, 0, 2**31 - 1
SESSION_BYTES: Final = 1024
PARTITION_BYTES: Final = 4096  # what a session and the records in flight keep of each partition


class Place(NamedTuple):
    topic_id: bytes
    partition: int


class Connection(Protocol):
    on_lost: dict[Callable[[], None], None]

    @property
    def is_lost(self) -> bool: ...


class ShareSession:
    """`is_open` turns false when the session has ended, however that came."""

    def __init__(self, group_id: str, member_id: str, connection: Connection) -> None:
        self.group_id, self.member_id = group_id, member_id
        self.epoch = 1  # of the next request
        self.partitions: dict[Place, bool] = {}  # True: the next response has it, also without records
        self.is_open = True
        self.connection = connection
        self.on_lost: Callable[[], None] | None = None
        self.held_bytes = 0

    def update(self, wanted: Iterable[Place], forgotten: Iterable[Place], *, is_news: bool) -> Work[None]:
        for number, place in enumerate(wanted):
            self.partitions.setdefault(place, is_news)
            if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
                yield 1
        for place in forgotten:
            self.partitions.pop(place, None)

    def must_tell(self, place: Place, *, is_error: bool, has_records: bool) -> bool:
        """Whether a response has to name this partition."""
        was_due = self.partitions.get(place, False)
        if place in self.partitions:
            self.partitions[place] = is_error  # once the error has passed the client is told so
        return was_due or is_error or has_records


class ShareSessions:
    def __init__(
        self,
        sessions_max: Callable[[], int],
        ended: Callable[[ShareSession], object],
        held_bytes_max: int = 2**63,
        hold: Callable[[int], None] = lambda more_bytes: None,
    ) -> None:
        """`ended` hears of sessions whose connection is lost, after they were removed."""
        self._sessions_max, self._ended = sessions_max, ended
        self._held_bytes_max, self._hold = held_bytes_max, hold
        self._held_bytes = 0
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def has_members(self, group_id: str) -> bool:
        return self._of_group[group_id] > 0

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def begin(
        self, group_id: str, member_id: str, connection: Connection, wanted: Iterable[Place]
    ) -> Work[ShareSession | ErrorCode]:
        """Instead of one that the member may have. What it holds of records stays its own."""
        if connection.is_lost:
            return ErrorCode.SHARE_SESSION_NOT_FOUND  # nobody would end it
        former = self.get(group_id, member_id)
        if former is not None:
            self.close(former)
        if len(self._sessions) >= self._sessions_max():
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(group_id, member_id, connection)
        self._sessions[group_id, member_id] = session
        self._of_group[group_id] += 1
        session.on_lost = lambda: self._lost(session)
        connection.on_lost[session.on_lost] = None
        yield from session.update(wanted, (), is_news=False)
        if session.is_open and not self._count(session):
            self.close(session)
        return session if session.is_open else ErrorCode.SHARE_SESSION_LIMIT_REACHED

    def go_on(
        self, group_id: str, member_id: str, epoch: int, wanted: Iterable[Place] = (), forgotten: Iterable[Place] = ()
    ) -> Work[ShareSession | ErrorCode]:
        session = self.get(group_id, member_id)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        yield from session.update(wanted, forgotten, is_news=True)
        if session.is_open and not self._count(session):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        return session if session.is_open else ErrorCode.SHARE_SESSION_NOT_FOUND

    def close(self, session: ShareSession) -> None:
        """Does nothing if it is closed. Releasing the member's records is for the caller."""
        if not session.is_open:
            return
        session.is_open = False
        del self._sessions[session.group_id, session.member_id]
        self._of_group[session.group_id] -= 1
        if not self._of_group[session.group_id]:
            del self._of_group[session.group_id]
        if session.on_lost is not None:
            session.connection.on_lost.pop(session.on_lost, None)
            session.on_lost = None
        self._held(-session.held_bytes)
        session.held_bytes = 0

    def _lost(self, session: ShareSession) -> None:
        if session.is_open:
            self.close(session)
            self._ended(session)

    def _count(self, session: ShareSession) -> bool:
        """Whether there is room for what it has grown to."""
        size_bytes = SESSION_BYTES + PARTITION_BYTES * len(session.partitions)
        more_bytes = size_bytes - session.held_bytes
        if more_bytes > 0 and self._held_bytes + more_bytes > self._held_bytes_max:
            return False
        session.held_bytes = size_bytes
        self._held(more_bytes)
        return True

    def _held(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        if self._held_bytes < 0:
            broken("26 share sessions are counted while they are kept", held=self._held_bytes, change=more_bytes)
        self._hold(more_bytes)
