"""The leader's side of replication: one fetch session per follower, with all partitions that it fetches from this node.

A follower names a partition when it joins the session and whenever its position differs from what the leader last knew
(KIP-227). The cost of a request depends on the partitions named or changed, not on the session's size: replicas report
new data, and only those are examined. After sending records of a partition, the leader waits until the follower has
reported its new position. A follower's offset counts for the high watermark only if leader, epoch and history agree
(KIP-101). If the image does not show yet that this node leads a partition, the partition waits for the next image; that
is not an error.

In-sync followers do not name partitions without records. The leader invites them when records arrive, or when their
session starts later. An invitation is a response that contains only the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.replication.credentials import is_signed_by
from chronik.replication.progress import FollowerProgress, Key
from chronik.runtime.buggify import ANSWERED_EMPTY, EARLY_NEWS, FOLLOWER_SESSION_LOST, ONE_PARTITION_ANSWERED
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from chronik.metadata.image import Partition
    from chronik.replication.assignment import Replicas
    from chronik.replication.replica import Replica

# A new high watermark without data is sent after this delay, usually together with data. Only consumers of the follower
# wait for it.
COMMITTED_NEWS_MS = 5
WAIT_MS_MAX = 30_000
EPOCH_INITIAL = 0


class FollowerSessions:
    """The sessions by broker. A follower's new session ends its previous one."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._sessions: dict[int, FollowerSession] = {}

    def fetch(
        self, request: FetchRequest, when_known: Callable[[], None] = lambda: None
    ) -> FetchResponse | asyncio.Future[FetchResponse]:
        """Serves a broker's fetch, v18+, which includes the high watermark that the follower knows (KIP-1166).

        `when_known` is called before the request is served, if the broker has proven its identity.
        """
        replicas = self._replicas
        broker_id, broker_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
        if not self.knows(request):
            return FetchResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, responses=[])
        when_known()
        session = self._sessions.get(broker_id)
        if request.session_epoch == EPOCH_INITIAL:
            if session is not None:
                session.end()
            session_id = replicas.draw_session_id()
            session = self._sessions[broker_id] = FollowerSession(replicas, broker_id, broker_epoch, session_id)
        elif (
            session is None
            or session.session_id != request.session_id
            or (FOLLOWER_SESSION_LOST.is_on and FOLLOWER_SESSION_LOST.fires())
        ):
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        elif session.next_epoch != request.session_epoch or session.broker_epoch != broker_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, responses=[])
        if session.broker_id != broker_id:
            broken("9 a session is of one broker", broker=broker_id, session=session.broker_id)
        if request.session_epoch == EPOCH_INITIAL:
            for key in replicas.led_with_log(broker_id):
                session.invite(key)
        return session.fetch(request)

    def knows(self, request: FetchRequest) -> bool:
        """Whether the latest process of a registered broker sent the request. A broker that has just registered
        retries, until this node's image shows the registration."""
        broker = self._replicas.image.brokers.get(request.replica_state.replica_id)
        return broker is not None and is_signed_by(request, broker)

    def invite(self, broker_id: int, key: Key) -> None:
        """Invites a follower to a partition. A follower without a session is invited when its session starts."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.invite(key)

    def end(self) -> None:
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()


class FollowerSession:
    def __init__(self, replicas: Replicas, broker_id: int, broker_epoch: int, session_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.session_id = session_id
        self.next_epoch = EPOCH_INITIAL
        self.heard_ns = 0  # time of the last request
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()
        self._partitions: dict[Key, FollowerProgress] = {}
        self._ready: dict[FollowerProgress, None] = {}  # partitions to examine, longest waiting first
        # Partitions with a high watermark that the follower does not know.
        self._committed: dict[FollowerProgress, None] = {}
        self._committed_due = False
        self._invitations: dict[Key, None] = {}
        self._refused: dict[FollowerProgress, PartitionData] = {}  # responses that do not wait for data
        self._waiting: asyncio.Future[FetchResponse] | None = None  # the pending request
        self._bytes_max = 0  # the limit of the last request
        self._timer: asyncio.TimerHandle | None = None  # timeout of the pending request
        self._news_timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    # --- requests

    def fetch(self, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
        self._answer([])  # answers a pending request, because the follower has news
        self.heard_ns = self._replicas.clock.monotonic_ns()
        self.next_epoch = 1 if self.next_epoch == 2**31 - 1 else self.next_epoch + 1
        self._bytes_max = request.max_bytes
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self._forget((forgotten.topic_id, index))
        for topic in request.topics:
            for asked in topic.partitions:
                key = (topic.topic_id, asked.partition)
                progress = self._partitions.get(key)
                if progress is None:
                    progress = self._join(key)
                if progress.sent_offset == asked.fetch_offset:
                    self._doubt(progress)
                progress.named(
                    start_offset=asked.log_start_offset,
                    end_offset=asked.fetch_offset,
                    last_epoch=asked.last_fetched_epoch,
                    leader_epoch=asked.current_leader_epoch,
                    bytes_max=asked.partition_max_bytes,
                    high_watermark=asked.high_watermark,
                )
                self._admit(progress)
                self._ready[progress] = None
        answers = self._collect()
        if answers or request.max_wait_ms <= 0 or (ANSWERED_EMPTY.is_on and ANSWERED_EMPTY.fires()):
            return self._response(answers)
        if self._waiting is not None:
            broken("27 one request of a session waits", broker=self.broker_id)
        self._waiting = self._loop.create_future()
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
        self._timer = self._loop.call_later(wait_ms / 1000, self._answer, [])
        return self._waiting

    def _doubt(self, progress: FollowerProgress) -> None:
        """The follower asks for the same records again: they may have become damaged after they were checked."""
        replica = self._replicas.opened(progress.key)
        if replica is not None:
            replica.log.doubt(progress.sent_offset)

    def end(self) -> None:
        self._answer([])
        for key in list(self._partitions):
            self._forget(key)
        if self._news_timer is not None:
            self._news_timer.cancel()

    def _join(self, key: Key) -> FollowerProgress:
        check(key not in self._partitions, "9 a partition stands once in a session", broker=self.broker_id, key=key)
        progress = self._partitions[key] = FollowerProgress(key, self)
        self._replicas.followers_of(key)[self.broker_id] = progress
        return progress

    def _forget(self, key: Key) -> None:
        progress = self._partitions.pop(key, None)
        if progress is None:
            return
        check(progress.key == key, "9 a partition stands once in a session", broker=self.broker_id, key=key)
        for waiting in (self._ready, self._committed, self._refused):
            waiting.pop(progress, None)
        self._replicas.follower_left(key, progress)

    # --- notifications from replicas

    def invite(self, key: Key) -> None:
        """Invites the follower to a partition that has records now."""
        if key not in self._partitions:
            self._invitations[key] = None
            self._serve_soon()

    def has_more(self, progress: FollowerProgress) -> None:
        """The log has grown, or the partition has changed."""
        self._ready[progress] = None
        self._serve_soon()

    def _serve_soon(self) -> None:
        if self._waiting is not None and not self._is_scheduled:
            # Deferred, so that everything that arrives in this loop iteration is sent together.
            self._is_scheduled = True
            self._loop.call_soon(self._serve)

    def has_committed_more(self, progress: FollowerProgress) -> None:
        self._committed[progress] = None
        if EARLY_NEWS.is_on and EARLY_NEWS.fires():
            self._loop.call_soon(self._tell_committed)
        if self._news_timer is None:
            self._news_timer = self._loop.call_later(COMMITTED_NEWS_MS / 1000, self._tell_committed)

    def _tell_committed(self) -> None:
        self._news_timer = None
        self._committed_due = True
        self._serve()

    def _serve(self) -> None:
        self._is_scheduled = False
        if self._waiting is None:
            return
        answers = self._collect()
        if answers:
            self._answer(answers)

    # --- responses

    def _answer(self, answers: list[tuple[Key, PartitionData]]) -> None:
        """Answers the pending request, if there is one."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if not waiting.done():
            waiting.set_result(self._response(answers))

    def _response(self, answers: list[tuple[Key, PartitionData]]) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for (topic_id, _), answer in answers:
            if not topics or topics[-1].topic_id != topic_id:
                topics.append(FetchableTopicResponse(topic="", topic_id=topic_id, partitions=[]))
            topics[-1].partitions.append(answer)
        return FetchResponse(session_id=self.session_id, responses=topics)

    def _collect(self) -> list[tuple[Key, PartitionData]]:
        """Everything that the follower should receive now, up to the byte limit of its request."""
        answers: list[tuple[Key, PartitionData]] = []
        left_bytes = self._bytes_max
        for progress in list(self._ready):
            if left_bytes <= 0:
                break
            del self._ready[progress]
            found = None if progress.awaits_follower else self._look(progress, left_bytes, at_least_one=not answers)
            if found is not None:
                answers.append((progress.key, found[0]))
                left_bytes -= found[1]
                if ONE_PARTITION_ANSWERED.is_on and ONE_PARTITION_ANSWERED.fires():
                    break
        if self._refused:
            answers += [(progress.key, answer) for progress, answer in self._refused.items()]
            self._refused.clear()
        if self._invitations:
            answers += [(key, _invitation(key)) for key in self._invitations if key not in self._partitions]
            self._invitations.clear()
        if self._committed_due:
            answers += self._committed_news()
        return answers

    def _look(
        self, progress: FollowerProgress, left_bytes: int, *, at_least_one: bool
    ) -> tuple[PartitionData, int] | None:
        """A partition's new data and its size."""
        if self._partitions.get(progress.key) is not progress:
            broken("9 a session answers for its own partitions", broker=self.broker_id, key=progress.key)
        replica = self._replicas.opened(progress.key)
        if replica is None or progress.counted_epoch != replica.leader_epoch or not replica.is_leader:
            self._admit(progress)
            replica = self._replicas.opened(progress.key)
            if replica is None or progress.counted_epoch != replica.leader_epoch:
                return None
        log = replica.log
        if progress.end_offset >= log.end_offset:
            return None
        try:
            found = log.read(
                progress.end_offset,
                bytes_max=min(progress.bytes_max, left_bytes),
                offset_limit=log.end_offset,
                at_least_one=at_least_one,
                to_send=True,
            )
        except self._replicas.refusals as fault:
            progress.awaits_follower = True
            return _refusal(progress.key[1], fault.kafka_error), 0
        if not found.buffers:
            if not at_least_one:
                self._ready[progress] = None  # too large for the rest of this response
            return None
        if found.next_offset <= progress.end_offset and found.buffers:
            broken("9 a follower gets what it lacks", partition=replica.name, offset=progress.end_offset)
        progress.awaits_follower = True
        progress.sent_offset = progress.end_offset
        answer = self._data(progress, replica)
        answer.records = found.buffers
        return answer, found.size_bytes

    def _committed_news(self) -> list[tuple[Key, PartitionData]]:
        self._committed_due = False
        answers = []
        moved, self._committed = self._committed, {}
        for progress in moved:
            replica = self._replicas.opened(progress.key)
            if replica is not None and progress.counted_epoch == replica.leader_epoch:
                told = (progress.told_high_watermark, progress.told_start_offset)
                if told != (replica.high_watermark, replica.log.start_offset):
                    answers.append((progress.key, self._data(progress, replica)))
        return answers

    def _data(self, progress: FollowerProgress, replica: Replica) -> PartitionData:
        if replica.high_watermark > replica.log.end_offset:
            broken(
                "10 the high watermark lies in the log", partition=replica.name, high_watermark=replica.high_watermark
            )
        progress.told_high_watermark, progress.told_start_offset = replica.high_watermark, replica.log.start_offset
        return PartitionData(
            partition_index=progress.key[1],
            error_code=0,
            high_watermark=replica.high_watermark,
            log_start_offset=replica.log.start_offset,
            aborted_transactions=None,
            records=b"",
        )

    # --- which offsets count

    def _admit(self, progress: FollowerProgress) -> None:
        """Counts the follower's offset if it belongs to this leader's history. Otherwise refuses it or waits for the
        image."""
        (topic_id, index), image = progress.key, self._replicas.image
        topic = image.topics.get(topic_id)
        state = topic.partition(index) if topic is not None else None
        if topic is None or state is None or progress.leader_epoch > state.leader_epoch:
            return None
        if self.broker_id not in state.replicas:
            return None
        if progress.leader_epoch < state.leader_epoch:
            return self._refuse(progress, ErrorCode.FENCED_LEADER_EPOCH, state)
        if state.leader != self._replicas.node_id:
            return self._refuse(progress, ErrorCode.NOT_LEADER_OR_FOLLOWER, state)
        replica = self._replicas.opened(progress.key)
        if replica is None:
            if progress.end_offset == 0 and self.broker_id in state.isr:
                return None  # nothing has been written here yet, which is normal
            replica = self._replicas.get(topic, index)
            if replica is None:
                return None
        return self._compare(progress, replica)

    def _compare(self, progress: FollowerProgress, replica: Replica) -> None:
        log = replica.log
        if progress.last_epoch >= 0:
            # If the follower has an epoch that this log lacks, it is damaged and truncates to this log.
            known_epoch = min(progress.last_epoch, log.epochs.latest)
            end = log.epochs.end_of(known_epoch, log.end_offset)
            if end.epoch < progress.last_epoch or end.end_offset < progress.end_offset:
                progress.awaits_follower = True
                if replica.is_surpassed_by(progress):
                    # Do not truncate the follower: it should become the leader.
                    self._replicas.losses.report(progress.key)
                    return
                answer = self._refused[progress] = self._data(progress, replica)
                answer.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
                return
        if not log.start_offset <= progress.end_offset <= log.end_offset:
            self._refuse(progress, ErrorCode.OFFSET_OUT_OF_RANGE, replica.state)
            self._refused[progress].log_start_offset = log.start_offset
            return
        replica.count(progress)
        if progress.told_high_watermark < replica.high_watermark or progress.start_offset < log.start_offset:
            self.has_committed_more(progress)

    def _refuse(self, progress: FollowerProgress, error: ErrorCode, state: Partition) -> None:
        progress.awaits_follower = True
        answer = self._refused[progress] = _refusal(progress.key[1], error)
        answer.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)


def _invitation(key: Key) -> PartitionData:
    return PartitionData(
        partition_index=key[1], error_code=0, high_watermark=-1, aborted_transactions=None, records=b""
    )


def _refusal(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=None, records=b""
    )
