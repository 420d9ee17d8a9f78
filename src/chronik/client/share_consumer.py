"""Reads topics as a member of a share group: members share partitions, and acknowledge records one by one.

    async with ShareConsumer(cluster, group_id="thumbnails") as consumer:
        consumer.subscribe(["images"])
        async for each in consumer:
            if not work(each.record): consumer.acknowledge(each, Acknowledge.RELEASE)

A record that poll has returned is locked for this consumer, for 30 seconds by default. The next poll accepts it, unless
it was acknowledged otherwise, so a record counts as processed when you ask for more. With `accepts=False` only
`acknowledge` decides. What is neither accepted nor rejected is delivered again, to any member, up to a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from chronik.client.errors import ClientError, Refused
from chronik.client.share_membership import ShareMembership
from chronik.client.share_session import Acknowledge, ShareFetchOptions, ShareRecord, ShareSession
from chronik.peer.backoff import Backoff
from chronik.runtime.tasks import Tasks
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

POLL_TIMEOUT_MS: Final = 500
# Of a partition whose state cannot be stored just now, or whose topic was created again: it may pass.
PASSING: Final = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.GROUP_ID_NOT_FOUND})


class ShareConsumer:
    def __init__(
        self,
        cluster: ClusterClient,
        *,
        group_id: str,
        accepts: bool = True,
        options: ShareFetchOptions | None = None,
    ) -> None:
        """Creates a share consumer of a connected cluster; close it, or use it in `async with`.

        accepts: whether poll and close accept the records of the last poll that were not acknowledged.
        options: sizes and waiting times of fetches.
        """
        self._cluster, self.group_id = cluster, group_id
        self._accepts, self._options = accepts, options or ShareFetchOptions()
        self._membership: ShareMembership | None = None
        self._sessions: dict[int, ShareSession] = {}
        self._busy: set[int] = set()  # nodes with a fetch or a pause under way
        self._fetched: list[tuple[ShareSession, ShareRecord]] = []  # not returned yet
        self._held: dict[tuple[TopicPartition, int], tuple[ShareSession, ShareRecord]] = {}  # returned, not decided
        self._failed: dict[TopicPartition, ClientError] = {}
        self._fault: Exception | None = None
        self._backoff = Backoff(cluster.randomness)  # while no leader is known
        self._moved = asyncio.Event()
        self._tasks = Tasks("share consumer", self._broken)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Records without end, as `poll` returns them. The loop's next poll accepts those before it."""
        while True:
            for each in await self.poll():
                yield each

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer may read now. Other members may read them, too."""
        return () if self._membership is None else self._membership.assignment

    @property
    def member_id(self) -> str:
        """The id by which the group knows this member; empty before `subscribe`."""
        return "" if self._membership is None else self._membership.member_id

    def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group, once."""
        if self._membership is not None:
            raise ValueError("this consumer is subscribed already: create another one")
        self._membership = ShareMembership(self._cluster, self.group_id, topics, self._moved.set)
        self._membership.start()

    # --- reading

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS) -> list[ShareRecord]:
        """Returns records as soon as there are some; an empty list at the timeout.

        Before that it accepts what the previous poll returned, unless `accepts` is False. Acknowledgements are sent
        with the next fetch; `commit` sends them now. Raises an error that will not pass, such as a permission that is
        missing; the next poll tries again.
        """
        if self._membership is None:
            raise ValueError("poll needs a subscription: call subscribe first")
        self._accept()
        end_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            self._moved.clear()
            if self._fault is not None:
                fault, self._fault = self._fault, None
                raise fault
            if self._membership.fault is not None:
                raise self._membership.fault
            if self._fetched:
                return self._take()
            self._start_fetches()
            try:
                async with asyncio.timeout_at(end_s):
                    await self._moved.wait()
            except TimeoutError:
                return []

    def _take(self) -> list[ShareRecord]:
        fetched, self._fetched = self._fetched, []
        for session, each in fetched:
            self._held[each.at, each.record.offset] = session, each
        return [each for _, each in fetched]

    def _start_fetches(self) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for at in self.assignment:
            leader_id = self._cluster.topology.leader_of(at.topic, at.partition)
            if leader_id is not None:
                by_leader.setdefault(leader_id, []).append(at)
        nodes = {*by_leader, *(node_id for node_id, each in self._sessions.items() if each.has_decisions)}
        if self.assignment and not by_leader and -1 not in self._busy:
            self._busy.add(-1)
            self._tasks.start("look for leaders", self._refresh(-1, self._backoff))
        for node_id in nodes - self._busy:
            session = self._sessions.get(node_id)
            if session is None:
                session = self._sessions[node_id] = ShareSession(
                    self._cluster, node_id, self.group_id, self.member_id, self._options
                )
            self._busy.add(node_id)
            self._tasks.start(f"share-fetch-{node_id}", self._fetch(session, by_leader.get(node_id, [])))

    async def _fetch(self, session: ShareSession, partitions: list[TopicPartition]) -> None:
        try:
            records, faults = await session.fetch(partitions, self._failed)
        except ClientError as fault:
            if _is_permanent(fault):
                self._fault = fault
            return await self._refresh(session.node_id, session.backoff)
        self._fetched += [(session, each) for each in records]
        permanent = [fault for fault in faults.values() if _is_permanent(fault)]
        if permanent:
            self._fault = permanent[0]
        if faults:
            if records:
                self._moved.set()
            return await self._refresh(session.node_id, session.backoff)
        self._busy.discard(session.node_id)
        self._moved.set()
        return None

    async def _refresh(self, node_id: int, backoff: Backoff) -> None:
        """Leaders may have moved: looks them up again after a pause."""
        await asyncio.sleep(backoff.next_ms() / 1000)
        with suppress(ClientError):  # the next attempt reports it, if it lasts
            await self._cluster.refresh(sorted({at.topic for at in self.assignment}))
        self._busy.discard(node_id)
        self._moved.set()

    def _broken(self, name: str, fault: Exception) -> None:
        self._fault = fault
        self._moved.set()

    # --- acknowledging

    def acknowledge(self, each: ShareRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        """Decides about a record that the last polls have returned. Sent with the next fetch, or by `commit`."""
        held = self._held.pop((each.at, each.record.offset), None)
        if held is None:
            raise ValueError(f"{each.at} offset {each.record.offset} is not held: it was acknowledged before")
        held[0].decide(each.at, each.record.offset, kind)

    async def commit(self) -> None:
        """Accepts what poll returned, unless `accepts` is False, and sends all acknowledgements.

        Raises Refused if some could not be made, also of those that went with earlier fetches: their records are
        delivered again.
        """
        self._accept()
        await asyncio.gather(*(each.acknowledge(self._failed) for each in self._sessions.values()))
        failed, self._failed = self._failed, {}
        if failed:
            raise next(iter(failed.values()))

    def _accept(self) -> None:
        if self._accepts:
            for session, each in self._held.values():
                session.decide(each.at, each.record.offset, Acknowledge.ACCEPT)
            self._held.clear()

    async def close(self) -> None:
        """Sends acknowledgements, releases the other records, and leaves the group."""
        self._accept()
        await self._tasks.stop()
        for session in self._sessions.values():
            with suppress(ClientError):
                await session.acknowledge(self._failed, closes=True)
        self._sessions.clear()
        if self._membership is not None:
            await self._membership.leave()


def _is_permanent(fault: ClientError) -> bool:
    return isinstance(fault, Refused) and not fault.retriable and fault.kafka_error not in PASSING
