"""Looks at the cluster every two seconds and keeps what it saw: the newest snapshot, series, events.

Every question has a limit of two seconds, so a look takes little more, however many nodes hang. A look never raises:
what failed is in `Snapshot.missing`. On a cluster whose pages are large, looks become rarer, so that the console takes
at most a small share of a core. Sizes, offsets and states of groups change slowly and are asked for less often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.client.admin import groups, nodes, offsets, quorum
from chronik.client.admin.status import page_text, status
from chronik.client.admin.survey import Survey, survey
from chronik.client.doctor.facts import StatusAt
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.console import rates
from chronik.console.attention import Item, Seen, Standing, attention
from chronik.console.events import Event, Feed, events_between
from chronik.console.prometheus import parse
from chronik.console.rates import Scrape
from chronik.console.ring import STEP_MS, History
from chronik.console.snapshot import Health, Missing, Snapshot, health_of
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.addresses import Address
    from chronik.client.admin.quorum import Quorum
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import Topology

log = logging.getLogger("chronik.console")

PERIOD_S: Final = STEP_MS / 1_000
QUESTION_S: Final = 2.0
LEADER_S: Final = 0.5  # a leader answers within milliseconds
SHARE_MAX: Final = 0.05  # of a core, for reading pages and topologies
TOPOLOGY_S: Final = 4.0
GROUPS_S: Final = 8.0
SURVEY_S: Final = 30.0
SURVEY_LIMIT_S: Final = 20.0
SURVEYED_PARTITIONS_MAX: Final = 20_000
LAG_WINDOW_MS: Final = 60_000

T = TypeVar("T")


class Observer:
    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self.snapshot = Snapshot(time_ms=cluster.clock.wall_ms())
        self.health = Health()
        self.history = History()
        self.feed = Feed()
        self.attention: list[Item] = []
        self.lag_per_s: Mapping[str, float | None] = {}  # by group, over the last minute
        self.since: Mapping[str, int] = {}
        self.records: dict[str, int] = {}  # by topic; empty until the first survey
        self.sizes: dict[str, int] = {}
        self.is_surveyed = False
        self.topics_fault: Missing | None = None  # why the topology is older than the rest
        self.ticked = asyncio.Condition()
        self.looks = 0
        self._scrapes: dict[int, Scrape] = {}
        self._admin: dict[int, Address] = {}
        self._standing = Standing()
        self._missing: list[Missing] = []
        self._next = {"topology": 0.0, "groups": 0.0}
        self._cost_s = 0.0

    async def run(self) -> None:
        """Until it is cancelled."""
        self.feed.add(Event(self._cluster.clock.wall_ms(), "console-started", "the console started"))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_repeatedly())
            tasks.create_task(self._survey_repeatedly())

    async def _look_repeatedly(self) -> None:
        while True:
            started = time.monotonic()
            self._cost_s = 0.0
            try:
                await self.look()
            except Exception:
                log.exception("a look at the cluster failed")
            period_s = max(PERIOD_S, self._cost_s / SHARE_MAX)
            await asyncio.sleep(max(0.1, started + period_s - time.monotonic()))

    async def _survey_repeatedly(self) -> None:
        while True:
            try:
                await self.survey()
            except Exception:
                log.exception("a survey of the topics failed")
            await asyncio.sleep(SURVEY_S if self.is_surveyed else PERIOD_S)

    # --- one look

    async def look(self) -> None:
        cluster, before, now = self._cluster, self.snapshot, time.monotonic()
        self._missing = []
        asking = asyncio.ensure_future(self._ask("the quorum", quorum.describe(cluster)))
        told, described, topology, states, seen = await asyncio.gather(
            asking,
            self._ask("the brokers", nodes.describe(cluster)),
            self._topology(now),
            self._group_states(now),
            self._voters_unless(asking),
        )
        seen = seen if told is None else None
        if seen is not None:
            self._say_why(seen)
        time_ms = cluster.clock.wall_ms()
        snapshot = Snapshot(
            time_ms=time_ms,
            quorum=told,
            survey=seen,
            brokers=described.nodes if described else before.brokers,
            cluster_id=described.cluster_id if described else before.cluster_id,
            topology=before.topology if topology is None else topology,
            topology_ms=before.topology_ms if topology is None else time_ms,
            group_states=before.group_states if states is None else states,
            is_reached=told is not None or described is not None or seen is not None,
        )
        self._learn_admin(snapshot)
        statuses, scrapes = await self._pages(snapshot)
        by_node, by_topic = self._values(scrapes)
        self._scrapes = scrapes
        after = replace(
            snapshot,
            statuses=statuses,
            node_values=by_node,
            values=rates.cluster_values(by_node.values()),
            topic_rates=by_topic,
            lags=rates.group_lags(scrapes.values()),
            missing=tuple(self._missing),
        )
        self._note(before, after)
        async with self.ticked:
            self.looks += 1
            self.ticked.notify_all()

    async def _voters_unless(self, asking: asyncio.Task[Quorum | None]) -> Survey | None:
        """Which voters answer, unless a leader does. Brokers that know none hold their answers back, so a survey begins
        before those are given up."""
        await asyncio.wait([asking], timeout=LEADER_S)
        if asking.done() and asking.result() is not None:
            return None
        return await self._ask("the voters", survey(self._cluster))

    def _say_why(self, seen: Survey) -> None:
        """Without a controller, brokers hold answers back or close connections. What they say then names no cause."""
        self._missing = [Missing(each.part, str(seen)) for each in self._missing]
        if self.topics_fault is not None:
            self.topics_fault = Missing(self.topics_fault.part, str(seen))

    def _learn_admin(self, snapshot: Snapshot) -> None:
        if snapshot.quorum is not None:
            self._admin = dict(snapshot.quorum.admin)

    def _values(
        self, scrapes: Mapping[int, Scrape]
    ) -> tuple[dict[int, dict[str, float]], dict[tuple[str, str], float]]:
        """By node and series; and of the whole cluster, by series and topic."""
        by_node = {
            node_id: rates.node_values(self._scrapes.get(node_id), scrape) for node_id, scrape in scrapes.items()
        }
        by_topic: dict[tuple[str, str], float] = {}
        for node_id, scrape in scrapes.items():
            for key, rate in rates.topic_values(self._scrapes.get(node_id), scrape).items():
                by_topic[key] = by_topic.get(key, 0.0) + rate
        return by_node, by_topic

    def _note(self, before: Snapshot, after: Snapshot) -> None:
        if self.looks:
            for event in events_between(before, after):
                self.feed.add(event)
        if after.topology is not before.topology:
            self.health = health_of(after.topology)
        self.snapshot = after
        self.history.put(after.time_ms, self._series(after))
        self.lag_per_s = {
            group: self.history.change_per_s(f"lag:{group}", LAG_WINDOW_MS, after.time_ms)
            for group, lag in after.lags.items()
            if lag.records
        }
        self.attention = attention(Seen(after, self.health, self.lag_per_s))
        self.since = self._standing.note(self.attention, after.time_ms)

    @staticmethod
    def _series(after: Snapshot) -> dict[str, float]:
        """The cluster's first: they are kept however many topics there are."""
        series = dict(after.values)
        if after.statuses:
            series["lag_total"] = float(sum(each.records for each in after.lags.values()))
        for node_id, values in after.node_values.items():
            series |= {f"{name}@{node_id}": value for name, value in values.items()}
        for group, lag in after.lags.items():
            series[f"lag:{group}"] = float(lag.records)
            if lag.seconds is not None:
                series[f"lag_seconds:{group}"] = lag.seconds
        series |= {f"{name}/{topic}": rate for (name, topic), rate in after.topic_rates.items()}
        return series

    async def _pages(self, snapshot: Snapshot) -> tuple[dict[int, StatusAt], dict[int, Scrape]]:
        """/status and /metrics of every node, side by side."""
        cluster, clock = self._cluster, self._cluster.clock
        surveyed = {each.node_id: each.page for each in snapshot.survey.nodes} if snapshot.survey else {}

        async def one(node_id: int, at: Address) -> tuple[StatusAt | None, Scrape | None]:
            asked_ms = clock.wall_ms()
            page, text = await asyncio.gather(
                status(cluster.network, at, cluster_id=snapshot.cluster_id, node_id=node_id, timeout_s=QUESTION_S),
                page_text(cluster.network, at, "/metrics", QUESTION_S),
            )
            if page is None or text is None:
                reason = f"its admin listener at {at} does not answer within {QUESTION_S:.0f} s"
                self._missing.append(Missing(f"node {node_id}", reason))
                told = surveyed.get(node_id)
                return (None if told is None else StatusAt(told, asked_ms, clock.wall_ms())), None
            started = time.process_time()
            scrape = Scrape(clock.wall_ms(), parse(text.decode("utf-8", "replace"), rates.WANTED))
            self._cost_s += time.process_time() - started
            return StatusAt(page, asked_ms, clock.wall_ms()), scrape

        asked = list(self._admin.items())
        answers = await asyncio.gather(*(one(node_id, at) for node_id, at in asked))
        found = dict(zip((node_id for node_id, _ in asked), answers, strict=True))
        for node_id in snapshot.node_ids:
            if node_id not in found:
                self._missing.append(Missing(f"node {node_id}", "its admin listener is not known"))
        statuses = {node_id: page for node_id, (page, _) in found.items() if page is not None}
        return statuses, {node_id: scrape for node_id, (_, scrape) in found.items() if scrape is not None}

    async def _topology(self, now: float) -> Topology | None:
        if now < self._next["topology"]:
            return None
        self._next["topology"] = now + TOPOLOGY_S
        started = time.process_time()
        found = await self._ask("the topics", self._cluster.refresh(None))
        self._cost_s += time.process_time() - started
        faults = [each for each in self._missing if each.part == "the topics"]
        self.topics_fault = faults[-1] if found is None and faults else None
        return found

    async def _group_states(self, now: float) -> dict[str, str] | None:
        if now < self._next["groups"]:
            return None
        self._next["groups"] = now + GROUPS_S
        listed = await self._ask("the groups", groups.list_all(self._cluster))
        return None if listed is None else {each.group_id: each.state for each in listed}

    async def _ask(self, part: str, question: Awaitable[T]) -> T | None:
        try:
            async with asyncio.timeout(QUESTION_S):
                return await question
        except TimeoutError:
            self._missing.append(Missing(part, f"no answer within {QUESTION_S:.0f} s"))
        except ClientError as fault:
            self._missing.append(Missing(part, str(fault)))
        return None

    # --- what changes slowly

    async def survey(self) -> None:
        """Sizes and numbers of records of all topics."""
        cluster = self._cluster
        topology = self.snapshot.topology
        if not topology.topics:
            return
        try:
            async with asyncio.timeout(SURVEY_LIMIT_S):
                directories = await nodes.log_directories(cluster)
                sizes: dict[str, int] = {}
                for directory in directories:
                    for at, size in directory.sizes_bytes.items():
                        sizes[at.topic] = sizes.get(at.topic, 0) + size
                self.sizes = sizes
                wanted = [
                    TopicPartition(name, index)
                    for name, topic in topology.topics.items()
                    for index, partition in topic.partitions.items()
                    if partition.leader_id in topology.brokers
                ]
                if len(wanted) <= SURVEYED_PARTITIONS_MAX:
                    starts = await offsets.look_up(cluster, dict.fromkeys(wanted, EARLIEST))
                    ends = await offsets.look_up(cluster, dict.fromkeys(wanted, LATEST))
                    records = dict.fromkeys((name for name in topology.topics), 0)
                    for at in wanted:
                        start, end = starts.get(at), ends.get(at)
                        if isinstance(start, offsets.OffsetAt) and isinstance(end, offsets.OffsetAt):
                            records[at.topic] += max(0, end.offset - start.offset)
                    self.records = records
                self.is_surveyed = True
        except (ClientError, TimeoutError) as fault:
            log.debug("sizes of topics are not known: %s", fault)
