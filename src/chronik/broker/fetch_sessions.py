"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session is remembered by id and a counting epoch; a request that does not fit is told to start anew, never guessed at.
Sessions are soft: the table is bounded, the longest unused one makes room, and a client that lost its session starts
another without losing data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION = 0
EPOCH_FINAL, EPOCH_INITIAL = -1, 0  # close or go without; begin
EPOCH_MAX = 2**31 - 1


class Wanted(NamedTuple):
    """One partition of a fetch, in the order in which it is to be served."""

    name: str  # empty in v13+
    topic_id: bytes  # zero before v13
    partition: FetchPartition


class Session:
    """What one client fetches, and what it was last told of each partition."""

    def __init__(self, session_id: int, *, by_id: bool) -> None:
        self.session_id = session_id
        self.epoch = 1  # of the next request
        self.by_id = by_id  # v13+ names topics by id; a session does not mix
        self.wanted: dict[tuple[str, bytes, int], Wanted] = {}
        self._told: dict[tuple[str, bytes, int], tuple[int, int]] = {}  # high watermark, log start

    def update(self, request: FetchRequest) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                self.wanted[topic.topic, topic.topic_id, partition.partition] = Wanted(
                    topic.topic, topic.topic_id, partition
                )
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.wanted.pop((forgotten.topic, forgotten.topic_id, index), None)
                self._told.pop((forgotten.topic, forgotten.topic_id, index), None)

    def is_news(self, wanted: Wanted, answer: PartitionData) -> bool:
        """Whether the client must hear of this partition: data, an error, or a moved watermark."""
        key = (wanted.name, wanted.topic_id, wanted.partition.partition)
        told = (answer.high_watermark, answer.log_start_offset)
        changed = self._told.get(key) != told
        self._told[key] = told
        if answer.error_code:
            self._told.pop(key, None)  # said again as long as it lasts
        diverged = answer.diverging_epoch.end_offset >= 0
        return bool(changed or answer.error_code or answer.records or diverged or answer.preferred_read_replica >= 0)

    def served(self, wanted: Wanted) -> None:
        """A partition that returned data goes to the end of the line, so that the others get their turn."""
        key = (wanted.name, wanted.topic_id, wanted.partition.partition)
        if key in self.wanted:
            self.wanted[key] = self.wanted.pop(key)


class FetchSessions:
    def __init__(self, sessions_max: int, pick_id: Callable[[int], int]) -> None:
        self._sessions_max = sessions_max
        self._pick_id = pick_id  # below(bound): ids are not guessable from one another
        self._sessions: dict[int, Session] = {}  # the longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, by_id: bool) -> tuple[Session | None, list[Wanted]] | ErrorCode:
        """The session of this request, if it has one, and everything it wants; or why it must start anew."""
        if request.session_epoch in (EPOCH_FINAL, EPOCH_INITIAL):
            self._sessions.pop(request.session_id, None)
            session = self._begin(by_id=by_id) if request.session_epoch == EPOCH_INITIAL else None
            if session is None:
                return None, [Wanted(t.topic, t.topic_id, p) for t in request.topics for p in t.partitions]
            session.update(request)
            return session, list(session.wanted.values())
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.update(request)
        return session, list(session.wanted.values())

    def _begin(self, *, by_id: bool) -> Session | None:
        if self._sessions_max <= 0:
            return None
        if len(self._sessions) >= self._sessions_max:
            self._sessions.pop(next(iter(self._sessions)))
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._pick_id(2**31)
        session = self._sessions[session_id] = Session(session_id, by_id=by_id)
        return session
