"""Reads topics: partitions that the caller chooses, or those that a group assigns.

    async with Consumer(cluster, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        while True:
            for fetched in await consumer.poll(): ...

`poll` does all work: rebalances, commits, lookups of starting positions. Records count as processed when you call poll
again, so an automatic commit never includes an unfinished record. A poll may take as long as a rebalance. If a
partition's offset no longer exists, reading continues at `reset`; with None, `poll` raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from chronik.client.admin import offsets
from chronik.client.errors import BadAnswer, ClientError, OffsetOutOfRange, Refused
from chronik.client.fetch_answers import Fetched, FetchOptions
from chronik.client.fetching import Fetcher
from chronik.client.membership import REJOIN, Member, Membership
from chronik.client.topology import TopicPartition
from chronik.runtime.invariants import check
from chronik.runtime.units import NS_PER_MS
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

AUTO_COMMIT_MS: Final = 5_000
POLL_TIMEOUT_MS: Final = 500

Told = Callable[[Sequence[TopicPartition]], Awaitable[None]]


class AtTime(NamedTuple):
    """Start at the first record of this time or later; at the end if there is none."""

    timestamp_ms: int


TIMING = frozenset({"session_timeout_ms", "rebalance_timeout_ms", "heartbeat_ms"})
Start = int | AtTime  # an offset, EARLIEST, LATEST, or a time


class Consumer:
    def __init__(
        self,
        cluster: ClusterClient,
        *,
        group_id: str | None = None,
        instance_id: str | None = None,
        assignors: Sequence[str] = ("range",),
        reset: int | None = EARLIEST,
        auto_commit_ms: int | None = AUTO_COMMIT_MS,
        options: FetchOptions | None = None,
        **timing_ms: int,
    ) -> None:
        """Creates a consumer of a connected cluster; close it, or use it in `async with`.

        group_id: the group that assigns partitions and stores offsets; None to use `assign` alone.
        instance_id: makes the member static (group.instance.id): a restart within its session moves no partitions.
        assignors: names of assignors, in order of preference: range, roundrobin, cooperative-sticky.
        reset: where to begin without a stored offset: EARLIEST, LATEST, or None to raise an error.
        auto_commit_ms: the time between automatic commits; None for commits by the caller only.
        options: sizes and waiting times of fetches, and the isolation level.
        timing_ms: session_timeout_ms, rebalance_timeout_ms and heartbeat_ms of a group member.
        """
        if unknown := timing_ms.keys() - TIMING:
            raise TypeError(f"unknown consumer settings: {', '.join(sorted(unknown))}")
        self._cluster = cluster
        self._options = options or FetchOptions()
        self.group_id = group_id
        self._instance_id = instance_id
        self._assignors = assignors
        self._timing_ms = timing_ms
        self._reset = reset
        self._auto_commit_ms = auto_commit_ms if group_id is not None else None
        self._next_commit_ns = 0
        self._fetcher = Fetcher(cluster, self._options)
        self._membership: Membership | None = None
        self._on_assigned: Told | None = None
        self._on_revoked: Told | None = None
        self._committed: dict[TopicPartition, int] = {}  # the group's offsets, as far as known

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    # --- choosing partitions

    async def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Reads exactly these partitions, each from its start, without a group assignment.

        A start is an offset, EARLIEST, LATEST or AtTime(ms).
        """
        self._fetcher.drop(self._fetcher.partitions)
        self._fetcher.put(await self._resolve(starts))

    def subscribe(
        self, topics: Sequence[str], *, on_assigned: Told | None = None, on_revoked: Told | None = None
    ) -> None:
        """Joins the group at the next poll. The callbacks get partitions before they are read or revoked."""
        if self.group_id is None:
            raise ValueError("subscribe needs a group_id; without one, use assign")
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._membership = Membership(
            self._cluster,
            self.group_id,
            topics=topics,
            assignors=self._assignors,
            instance_id=self._instance_id,
            **self._timing_ms,
        )

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer reads now."""
        return self._fetcher.partitions

    @property
    def member_id(self) -> str:
        """The id that the group's coordinator gave this member; empty before the first poll."""
        return self._membership.member_id if self._membership is not None else ""

    @property
    def membership(self) -> Member | None:
        """The membership for a transaction that commits this consumer's positions; None without a group."""
        if self.group_id is None:
            return None
        if self._membership is None:
            return Member(self.group_id)
        return Member(self.group_id, self._membership.member_id, self._membership.generation, self._instance_id)

    def positions(self) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that poll has returned."""
        return self._fetcher.positions()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The readable end of each partition, as of the last fetch: lag is this minus the position."""
        return self._fetcher.high_watermarks()

    async def seek(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Continues at other offsets or times, in partitions of the assignment."""
        if foreign := starts.keys() - set(self.assignment):
            raise ClientError(f"cannot seek in {min(foreign)}: this consumer does not read it")
        self._fetcher.put(await self._resolve(starts))

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool = True) -> None:
        """Stops reading partitions but keeps them assigned; is_paused=False resumes reading."""
        self._fetcher.pause(partitions, is_paused=is_paused)

    # --- reading

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS) -> list[Fetched]:
        """Returns the next records, by partition; an empty list if none arrived within the timeout."""
        await self._commit_when_due()
        if self._membership is not None and self._membership.needs_join:
            await self._rebalance(self._membership)
        try:
            return await self._fetcher.poll(timeout_ms)
        except OffsetOutOfRange as fault:
            if self._reset is None:
                raise
            self._fetcher.put(await self._resolve({fault.at: self._reset}))
            return []

    async def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Stores offsets for the group: the given ones, or the positions after all records that poll has returned."""
        if self.group_id is None:
            raise ValueError("commit needs a group_id")
        chosen = self.positions() if positions is None else positions
        changed = {at: offset for at, offset in chosen.items() if self._committed.get(at) != offset}
        if not changed:
            return
        member = self._membership
        await offsets.commit(
            self._cluster,
            self.group_id,
            {at: offsets.Committed(offset, -1, "") for at, offset in changed.items()},
            member_id=member.member_id if member is not None else "",
            generation=member.generation if member is not None else -1,
            instance_id=self._instance_id if member is not None else None,
        )
        self._committed |= changed

    async def close(self) -> None:
        """Commits if commits are automatic, and leaves the group."""
        try:
            await self._commit_quietly()
        finally:
            if self._membership is not None:
                await self._membership.leave()
            await self._fetcher.close()

    # --- groups

    async def _rebalance(self, membership: Membership) -> None:
        """Joins until the group has settled. Revokes lost partitions before other members read them."""
        await self._commit_quietly()
        while membership.needs_join:
            if not membership.is_cooperative or membership.is_forgotten:
                await self._revoke(self.assignment)
                membership.is_forgotten = False
            assigned = await membership.join(self.assignment)
            if membership.is_forgotten:
                await self._revoke(self.assignment)  # reassigned partitions restart at the group's current offsets
                membership.is_forgotten = False
            revoked = [at for at in self.assignment if at not in assigned]
            check(
                len(set(assigned)) == len(assigned),
                "18 a partition is assigned once",
                group=self.group_id,
                assigned=assigned,
            )
            if revoked:
                await self._commit_quietly()
                await self._revoke(revoked)
                membership.needs_join = membership.is_cooperative  # rejoin, so that other members can get them
            added = [at for at in assigned if at not in self.assignment]
            if added:
                self._fetcher.put(await self._starting_points(added))
                check(
                    set(self.assignment) == set(assigned),
                    "18 a member reads what it was assigned",
                    group=self.group_id,
                    reads=self.assignment,
                    assigned=assigned,
                )
                if self._on_assigned is not None:
                    await self._on_assigned(added)

    async def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        if self._on_revoked is not None:
            await self._on_revoked(partitions)
        self._fetcher.drop(partitions)
        for at in partitions:
            self._committed.pop(at, None)

    async def _starting_points(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets, or `reset` for partitions without one."""
        assert self.group_id is not None
        committed = await offsets.committed(self._cluster, self.group_id, is_stable=True)
        known = {at: committed[at].offset for at in partitions if at in committed}
        self._committed |= known
        fresh = [at for at in partitions if at not in known]
        if fresh and self._reset is None:
            raise ClientError(f"group {self.group_id!r} has no offset for {fresh[0]}, and no reset is configured")
        return known | await self._resolve({at: self._reset for at in fresh if self._reset is not None})

    async def _commit_when_due(self) -> None:
        now_ns = self._cluster.clock.monotonic_ns()
        if self._auto_commit_ms is not None and now_ns >= self._next_commit_ns:
            self._next_commit_ns = now_ns + self._auto_commit_ms * NS_PER_MS
            await self._commit_quietly()

    async def _commit_quietly(self) -> None:
        """A commit that is too late for its generation is not an error: the new owner reads the records again."""
        if self._auto_commit_ms is None:
            return
        try:
            await self.commit()
        except Refused as fault:
            if fault.kafka_error not in REJOIN:
                raise

    async def _resolve(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """Resolves starts given as times or log positions to offsets."""
        found = {at: start for at, start in starts.items() if isinstance(start, int) and start >= 0}
        asked = {
            at: start.timestamp_ms if isinstance(start, AtTime) else start
            for at, start in starts.items()
            if at not in found
        }
        while asked:
            looked_up = await offsets.look_up(self._cluster, asked, isolation_level=self._options.isolation_level)
            for at in asked:
                answer = looked_up.get(at) or BadAnswer(f"the leader of {at} returned no offset for it")
                if isinstance(answer, ClientError):
                    raise answer
                if answer.offset != offsets.NONE:
                    found[at] = answer.offset
            asked = dict.fromkeys(asked.keys() - found.keys(), LATEST)  # no record is that late: start at the end
        for topic in {at.topic for at in starts}:
            await self._cluster.topic(topic)
        return {at: found[at] for at in starts}
