"""Follows one leader: one connection and one fetch session for all partitions that this node follows from it.

A response is appended, all its data is made durable together, and only then is more requested. So the offset in a
request is durable on this node, and the leader relies on that (with chronik.durability=os, it is in the page cache). A
second request is sent before the first is answered only to report changes: a partition was added, removed or truncated.
The leader then answers the first request at once.

An in-sync follower does not fetch a partition without a local log: the partition has no records, and the leader invites
its followers when it has some (a response with a partition that the follower has not named). So an empty topic costs no
requests, and the first record of a new partition costs one more round trip.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import cast

from chronik.peer.addresses import Address
from chronik.peer.connections import Login, no_login
from chronik.replication.credentials import sign
from chronik.replication.errors import LeaderLost, ReplicationError
from chronik.replication.follower import NOT_NAMED, Follower, Outcome, cuts
from chronik.replication.link import LeaderLink
from chronik.replication.progress import Key
from chronik.runtime.buggify import FETCHED_IGNORED, FEW_NAMED, LINK_CLOSED
from chronik.runtime.interfaces import Network
from chronik.runtime.invariants import InvariantBroken, broken, check
from chronik.runtime.pieces import slice_of
from chronik.storage.errors import LogFull, StorageError, StorageFailed
from chronik.storage.log import Log
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import WireError
from chronik.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from chronik.wire.peer_errors import PeerError
from chronik.wire.uuids import uuid_text

logger = logging.getLogger("chronik.replication")

RECONNECT_MS_MIN, RECONNECT_MS_MAX = 50, 1_000
CONNECT_MS_MAX = 2_000
IN_FLIGHT_MAX = 2
NAMED_MAX = 1_000  # partitions per request: more would block both nodes for too long
CUTS_AT_ONCE = 4  # truncations per loop iteration: each blocks the loop for four syncs
# Errors right after a change of leader or epoch: the image that shows the change will arrive soon.
SOON_OVER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@dataclass(frozen=True, slots=True)
class FetchConfig:
    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 10 << 20
    partition_bytes_max: int = 1 << 20
    retry_ms: int = 1_000  # after an error in one partition


class Fetcher:
    def __init__(
        self,
        node_id: int,
        leader_id: int,
        network: Network,
        config: FetchConfig,
        *,
        address_of: Callable[[int], Address | None],
        broker_epoch: Callable[[], int],
        incarnation_id: Callable[[], bytes],
        login: Login = no_login,
    ) -> None:
        self.leader_id = leader_id
        # Called when the leader invites this node to a partition. Returns whether the image shows that this node
        # follows it.
        self.on_invitation: Callable[[int, Key], bool] = lambda leader_id, key: False
        self._node_id = node_id
        self._network = network
        self._config = config
        self._address_of = address_of
        self._broker_epoch, self._incarnation_id = broker_epoch, incarnation_id
        self._login = login
        self._loop = asyncio.get_running_loop()
        self._followers: dict[Key, Follower] = {}
        self._invited: dict[Key, None] = {}  # invitations to partitions that the image does not show yet
        self._unnamed: dict[Key, None] = {}  # partitions with a position that the leader does not know
        self._forgotten: dict[Key, None] = {}  # partitions to remove from the leader's session
        self._unsettled: dict[Log, None] = {}  # logs whose end may not be durable yet
        self._rounds: set[asyncio.Future[None]] = set()  # journal rounds to wait for
        self._link: LeaderLink | None = None
        self._session_id = self._session_epoch = 0
        self._is_scheduled = False
        # Followers whose logs are being prepared for truncation, one at a time.
        self._preparing: deque[Follower] = deque()

    # --- partitions

    def is_invited(self, key: Key) -> bool:
        """Whether the leader has invited this node to the partition, or it is followed already."""
        return key in self._invited or key in self._followers

    def follows(self, key: Key) -> bool:
        return key in self._followers

    def follow(self, follower: Follower) -> None:
        present = self._followers.get(follower.key)
        check(
            present is None or present.leader_epoch <= follower.leader_epoch,
            "11 a partition is followed in rising epochs",
            leader=self.leader_id,
            partition=follower.key[1],
            epoch=follower.leader_epoch,
        )
        self._followers[follower.key] = follower
        self._invited.pop(follower.key, None)
        self._forgotten.pop(follower.key, None)
        log = follower.log
        if log is not None:
            self._unsettled[log] = None  # data found by recovery may only be in the page cache
        self._name_again(follower)

    def forget(self, key: Key) -> None:
        follower = self._followers.pop(key, None)
        if follower is None:
            return
        log = follower.log
        if log is not None:
            self._unsettled.pop(log, None)  # it may be deleted next
        self._unnamed.pop(key, None)
        self._forgotten[key] = None
        self._schedule()

    def _name_again(self, follower: Follower) -> None:
        if self._followers.get(follower.key) is follower:
            self._unnamed[follower.key] = None
            self._schedule()

    def _schedule(self) -> None:
        """Deferred, because one image often changes many partitions."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._settle)

    # --- the connection

    async def run(self) -> None:
        pause_ms = RECONNECT_MS_MIN
        while True:
            link = None
            try:
                link = await self._connect()
                pause_ms = RECONNECT_MS_MIN
                await link.closed
            except (StorageFailed, InvariantBroken):
                raise
            except (OSError, TimeoutError, PeerError, ReplicationError) as fault:
                logger.info("fetching from broker %d: %s; retrying in %d ms", self.leader_id, fault, pause_ms)
            except Exception:  # last resort: keep retrying after any error, and log it
                logger.exception("fetching from broker %d failed; retrying in %d ms", self.leader_id, pause_ms)
            finally:
                self._link = None
                if link is not None:
                    link.fail(LeaderLost("not needed any more"))
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RECONNECT_MS_MAX)

    async def _connect(self) -> LeaderLink:
        address = self._address_of(self.leader_id)
        if address is None:
            raise LeaderLost("the image does not show where it is")
        link = LeaderLink(address, f"broker-{self._node_id}-fetcher", self._receive, self._login(address))
        try:
            async with asyncio.timeout(CONNECT_MS_MAX / 1000):
                await self._network.connect(address.host, address.port, lambda: cast(asyncio.Protocol, link))
                await link.begin()
                link.mind_login()
        except BaseException:
            link.fail(LeaderLost("not connected in time"))
            raise
        self._link = link
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        self._invited.clear()
        self._unnamed = dict.fromkeys(self._followers)
        for follower in self._followers.values():
            follower.named_in = NOT_NAMED  # request numbers restart
        self._settle()
        return link

    # --- requests

    def _settle(self) -> None:
        """Waits until everything that was appended is durable, then requests more."""
        self._is_scheduled = False
        if self._link is None or self._rounds:
            return
        for log in list(self._unsettled):
            round_ = log.when_durable(log.end_offset)
            if round_ is None:
                del self._unsettled[log]
            elif round_ not in self._rounds:
                self._rounds.add(round_)
                round_.add_done_callback(self._round_ended)
        if not self._rounds:
            self._send_if_due(self._link)

    def _round_ended(self, done: asyncio.Future[None]) -> None:
        if done not in self._rounds:
            broken("21 a follower waits for a round once", leader=self.leader_id, rounds=len(self._rounds))
        self._rounds.discard(done)
        if done.exception() is None:  # otherwise the node stops and sends nothing more
            self._settle()

    def _send_if_due(self, link: LeaderLink) -> None:
        is_first_answered = self._session_id != 0
        may_send = link.in_flight_count < (IN_FLIGHT_MAX if is_first_answered else 1)
        has_news = bool(self._unnamed or self._forgotten)
        if not link.is_open or not may_send or (link.in_flight_count and not has_news):
            return
        if len(self._unnamed) > len(self._followers) or link.in_flight_count >= IN_FLIGHT_MAX:
            broken("26 only what is followed is named", leader=self.leader_id, unnamed=len(self._unnamed))
        named = list(islice(self._unnamed, 1 if FEW_NAMED.is_on and FEW_NAMED.fires() else NAMED_MAX))
        number = link.send(self._request(named))
        for key in named:
            self._followers[key].named_in = number
            del self._unnamed[key]
        self._forgotten = {}
        self._session_epoch += 1
        if self._unnamed:
            self._schedule()

    def _request(self, named: list[Key]) -> FetchRequest:
        topics: dict[bytes, FetchTopic] = {}
        for key in named:
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(topic="", topic_id=key[0], partitions=[])
            topic.partitions.append(self._followers[key].position(self._config.partition_bytes_max))
        forgotten: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            if (topic_id, index) in self._followers:
                broken("9 what is followed is not forgotten", leader=self.leader_id, topic=topic_id, index=index)
            gone = forgotten.setdefault(topic_id, ForgottenTopic(topic="", topic_id=topic_id, partitions=[]))
            gone.partitions.append(index)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=self._config.wait_ms_max if len(named) == len(self._unnamed) else 0,  # more names follow
            min_bytes=self._config.bytes_min,
            max_bytes=self._config.bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id="",
        )
        sign(request, self._incarnation_id())
        return request

    # --- responses

    def _receive(self, response: FetchResponse, number: int) -> None:
        if response.error_code:
            raise LeaderLost(f"the leader ends the session: {ErrorCode.of(response.error_code).name}")
        if LINK_CLOSED.is_on and LINK_CLOSED.fires():
            raise LeaderLost("a new session is begun")
        self._session_id = response.session_id
        cut_count = 0
        for topic in response.responses:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                follower = self._followers.get(key)
                if follower is None:
                    if not self.on_invitation(self.leader_id, key):
                        self._invited[key] = None
                    continue
                if FETCHED_IGNORED.is_on and FETCHED_IGNORED.fires():
                    self._unnamed[key] = None
                    continue
                if cuts(answer):
                    cut_count += 1
                    if cut_count > CUTS_AT_ONCE:
                        self._unnamed[key] = None  # the leader will send the same response again
                        continue
                self._apply(follower, answer, number)
        self._settle()

    def _apply(self, follower: Follower, answer: PartitionData, number: int) -> None:
        try:
            outcome = follower.apply(answer, number)
        except StorageFailed:
            raise
        except (WireError, StorageError) as fault:
            # A full disk has an alarm for the whole node, so do not log an error for each partition.
            level = logging.INFO if isinstance(fault, LogFull) else logging.ERROR
            logger.log(level, "partition %d of %s: %s", follower.key[1], uuid_text(follower.key[0]), fault)
            outcome = Outcome.REFUSED
        log = follower.log
        if outcome is not Outcome.NOTHING and log is not None:
            self._unsettled[log] = None  # even after an error: some records may have been appended before it
        if outcome is Outcome.PREPARES:
            self._preparing.append(follower)
            if len(self._preparing) == 1:
                self._loop.call_soon(self._prepare)
        if outcome is Outcome.MOVED:
            self._unnamed[follower.key] = None
        elif outcome is Outcome.REFUSED:
            soon = follower.error_code in SOON_OVER
            pause_ms = RECONNECT_MS_MIN if soon else self._config.retry_ms
            self._loop.call_later(pause_ms / 1000, partial(self._name_again, follower))

    def _prepare(self) -> None:
        """Prepares one log for truncation, for one time slice. When that is done, the partition is requested again and
        the leader repeats its response."""
        follower = self._preparing[0]
        work, is_over = follower.preparing, True
        try:
            if work is not None and self._followers.get(follower.key) is follower:
                is_over = not slice_of(work)
        except (StorageError, OSError) as fault:  # the log may be gone; otherwise the next attempt fails the same way
            logger.info("partition %d of %s: %s", follower.key[1], uuid_text(follower.key[0]), fault)
        if is_over:
            self._preparing.popleft()
            follower.preparing = None
            self._name_again(follower)
        if self._preparing:
            self._loop.call_soon(self._prepare)


class Fetchers:
    """One task for each leader, while this node follows partitions from it."""

    def __init__(self, make: Callable[[int], Fetcher], start: Callable[[str, Fetcher], asyncio.Task[None]]) -> None:
        self._make = make
        self._start = start
        self._make_follower: Callable[[Key, int], Follower] | None = None
        self._fetchers: dict[int, tuple[Fetcher, asyncio.Task[None]]] = {}
        self.leader_of: dict[Key, tuple[int, int]] = {}  # leader and leader epoch of followed and expected partitions
        self._led_count: dict[int, int] = {}  # the number of these partitions by leader
        # Shares one tuple between partitions with the same leader and epoch, which saves memory.
        self._pairs: dict[tuple[int, int], tuple[int, int]] = {}

    def attach(self, make_follower: Callable[[Key, int], Follower]) -> None:
        """`make_follower` creates the follower of a partition in a leader epoch."""
        self._make_follower = make_follower

    def follow(self, key: Key, leader_id: int, leader_epoch: int, *, when_invited: bool) -> None:
        """Follows the partition at once, or when the leader invites this node to it. No effect if it is followed in
        this epoch already."""
        before = self.leader_of.get(key)
        if before == (leader_id, leader_epoch):
            if not when_invited and not self._fetchers[leader_id][0].follows(key):
                self._begin(key)
            return
        if before is not None and before[1] > leader_epoch:
            broken("11 a partition is followed in rising epochs", index=key[1], before=before, now=leader_epoch)
        if before is not None and before[0] != leader_id:
            self.forget(key)
        self._lead(key, leader_id, leader_epoch)
        if not when_invited or self._fetchers[leader_id][0].is_invited(key):
            self._begin(key)

    def _lead(self, key: Key, leader_id: int, leader_epoch: int) -> None:
        pair = (leader_id, leader_epoch)
        if key not in self.leader_of:
            self._led_count[leader_id] = self._led_count.get(leader_id, 0) + 1
        self.leader_of[key] = self._pairs.setdefault(pair, pair) if leader_epoch == 0 else pair
        if leader_id not in self._fetchers:
            fetcher = self._make(leader_id)
            fetcher.on_invitation = self._invited
            self._fetchers[leader_id] = (fetcher, self._start(f"fetcher of broker {leader_id}", fetcher))

    def _invited(self, leader_id: int, key: Key) -> bool:
        leader = self.leader_of.get(key)
        if leader is None or leader[0] != leader_id:
            return False
        self._begin(key)
        return True

    def _begin(self, key: Key) -> None:
        assert self._make_follower is not None
        leader_id, leader_epoch = self.leader_of[key]
        self._fetchers[leader_id][0].follow(self._make_follower(key, leader_epoch))

    def forget(self, key: Key) -> None:
        before = self.leader_of.pop(key, None)
        if before is None:
            return
        check(
            self._led_count.get(before[0], 0) > 0,
            "26 partitions are counted by leader",
            leader=before[0],
            key=key,
        )
        leader_id = before[0]
        fetcher, task = self._fetchers[leader_id]
        fetcher.forget(key)
        self._led_count[leader_id] -= 1
        if not self._led_count[leader_id]:
            del self._fetchers[leader_id], self._led_count[leader_id]
            task.cancel()

    def end(self) -> None:
        for key in list(self.leader_of):
            self.forget(key)
