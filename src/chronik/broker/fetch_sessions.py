"""Incremental fetch sessions (KIP-227): a client names its partitions once, and then only changes.

A session has an id and an epoch that counts requests. A request with another epoch is refused, and the client starts a
new session. The number of sessions and their memory are limited: the least recently used one is dropped. A client that
lost its session starts another one without losing data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronik.runtime.buggify import FETCH_SESSION_LOST
from chronik.runtime.invariants import broken, check
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, at_once
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION = 0
EPOCH_FINAL, EPOCH_INITIAL = -1, 0  # close the session, or fetch without one; start a session
EPOCH_MAX = 2**31 - 1
PARTITION_BYTES = 640  # memory of one partition in a session


class Wanted(NamedTuple):
    """One partition of a fetch, in serving order."""

    name: str  # empty in v13+
    topic_id: bytes  # zero before v13
    partition: FetchPartition


class FetchSession:
    """The partitions that one client fetches, and the values last sent for each."""

    def __init__(self, session_id: int, *, by_id: bool) -> None:
        self.session_id = session_id
        self.epoch = 1  # the epoch of the next request
        self.by_id = by_id  # from v13 on, topics have ids; a session has either ids or names
        self.wanted: dict[tuple[str, bytes, int], Wanted] = {}
        self._told: dict[tuple[str, bytes, int], tuple[int, int]] = {}  # high watermark, log start
        self.held_bytes = 0  # as counted by the table

    def update(self, request: FetchRequest) -> Work[None]:
        for topic in request.topics:
            for number, partition in enumerate(topic.partitions):
                self.wanted[topic.topic, topic.topic_id, partition.partition] = Wanted(
                    topic.topic, topic.topic_id, partition
                )
                if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
                    yield 1
            yield 1
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.wanted.pop((forgotten.topic, forgotten.topic_id, index), None)
                self._told.pop((forgotten.topic, forgotten.topic_id, index), None)

    def is_news(self, wanted: Wanted, answer: PartitionData) -> bool:
        """Whether the response must include this partition: it has data, an error, or a changed watermark."""
        key = (wanted.name, wanted.topic_id, wanted.partition.partition)
        told = (answer.high_watermark, answer.log_start_offset)
        changed = self._told.get(key) != told
        self._told[key] = told
        if answer.error_code:
            self._told.pop(key, None)  # an error is sent again as long as it lasts
        diverged = answer.diverging_epoch.end_offset >= 0
        return bool(changed or answer.error_code or answer.records or diverged or answer.preferred_read_replica >= 0)

    def served(self, wanted: Wanted) -> None:
        """Moves a partition that returned data to the end, so that other partitions come first."""
        key = (wanted.name, wanted.topic_id, wanted.partition.partition)
        if key in self.wanted:
            self.wanted[key] = self.wanted.pop(key)


Opened = tuple[FetchSession | None, list[Wanted]] | ErrorCode


class FetchSessions:
    def __init__(
        self,
        sessions_max: int,
        pick_id: Callable[[int], int],
        held_bytes_max: int = 2**63,
        hold: Callable[[int], None] = lambda more_bytes: None,
    ) -> None:
        """`hold` is called with every change of the bytes that sessions hold, which stay below `held_bytes_max`."""
        self._sessions_max = sessions_max
        self._held_bytes_max, self._held_bytes = held_bytes_max, 0
        self._hold = hold
        self._pick_id = pick_id  # below(bound): an id does not reveal other ids
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, by_id: bool) -> Opened:
        """Like `opening`, for few partitions."""
        if request.session_epoch == EPOCH_FINAL:
            if request.session_id:
                self._forget(request.session_id)
            return None, [Wanted(t.topic, t.topic_id, p) for t in request.topics for p in t.partitions]
        return at_once(self.opening(request, by_id=by_id))

    def opening(self, request: FetchRequest, *, by_id: bool) -> Work[Opened]:
        """The request's session, if any, and all its partitions; or the error after which the client starts a new
        session."""
        if request.session_epoch in (EPOCH_FINAL, EPOCH_INITIAL):
            self._forget(request.session_id)
            session = self._begin(by_id=by_id) if request.session_epoch == EPOCH_INITIAL else None
            if session is None:
                return None, (yield from _all_wanted(request))
        else:
            found = self._sessions.get(request.session_id)
            if found is None or (FETCH_SESSION_LOST.is_on and FETCH_SESSION_LOST.fires()):
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if found.by_id != by_id:
                return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
            if found.epoch != request.session_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            session = found
            session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
            self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        yield from session.update(request)
        if self._has_room_for(session):
            return session, list(session.wanted.values())
        self._forget(session.session_id)
        if request.session_epoch == EPOCH_INITIAL:
            return None, list(session.wanted.values())  # session id 0 means that the client has no session
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def _has_room_for(self, session: FetchSession) -> bool:
        """Counts the session's growth. Drops least recently used sessions if that makes enough room.

        A long request is processed in slices. Its session may have been dropped meanwhile; then it no longer counts.
        """
        if self._sessions.get(session.session_id) is not session:
            return False
        self._count(session)
        while self._held_bytes > self._held_bytes_max and len(self._sessions) > 1:
            oldest = next(each for each in self._sessions.values() if each is not session)
            self._forget(oldest.session_id)
        check(
            self._held_bytes >= session.held_bytes,
            "26 sessions are counted while they are kept",
            held=self._held_bytes,
            session=session.held_bytes,
        )
        return self._held_bytes <= self._held_bytes_max

    def _count(self, session: FetchSession, partition_count: int | None = None) -> None:
        """`partition_count` is 0 when the session is dropped."""
        count = len(session.wanted) if partition_count is None else partition_count
        size_bytes = count * PARTITION_BYTES
        grown_bytes, session.held_bytes = size_bytes - session.held_bytes, size_bytes
        self._held_bytes += grown_bytes
        if self._held_bytes < 0:
            broken("26 sessions are counted while they are kept", held=self._held_bytes, change=grown_bytes)
        self._hold(grown_bytes)

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(session, 0)
            if not self._sessions and self._held_bytes:
                broken("26 sessions are counted while they are kept", held=self._held_bytes, sessions=0)

    def _begin(self, *, by_id: bool) -> FetchSession | None:
        if self._sessions_max <= 0:
            return None
        if len(self._sessions) >= self._sessions_max:
            self._forget(next(iter(self._sessions)))
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._pick_id(2**31)
        check(
            len(self._sessions) < self._sessions_max,
            "23 fetch sessions are bounded",
            sessions=len(self._sessions),
            allowed=self._sessions_max,
        )
        session = self._sessions[session_id] = FetchSession(session_id, by_id=by_id)
        return session


def _all_wanted(request: FetchRequest) -> Work[list[Wanted]]:
    wanted: list[Wanted] = []
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.append(Wanted(topic.topic, topic.topic_id, partition))
            if len(wanted) % ITEMS_PER_PIECE == 0:
                yield 1
    return wanted
