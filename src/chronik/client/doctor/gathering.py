"""Queries everything that the doctor needs from a cluster, concurrently, each query with a time limit.

Never changes the cluster, never reads a record's value, and never raises: a query that fails is in `Facts.unanswered`.
It takes a few seconds at most, however many nodes hang. Growing values are queried twice, a short time apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.client.addresses import Address
from chronik.client.admin import configs, groups, lag, nodes, offsets, quorum, reassignments
from chronik.client.admin.configs import Config, ConfigResource, ResourceKind, Source
from chronik.client.admin.lag import PartitionLag
from chronik.client.admin.nodes import Node
from chronik.client.admin.quorum import Quorum
from chronik.client.admin.status import status
from chronik.client.admin.survey import Survey, survey
from chronik.client.doctor.facts import Facts, GroupFacts, StatusAt
from chronik.client.errors import ClientError
from chronik.client.topology import Topic, TopicPartition
from chronik.peer.connection import connect
from chronik.wire.offset_specs import LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

QUESTION_S: Final = 2.0
BETWEEN_LOOKS_S: Final = 1.5  # long enough for a busy consumer to commit or fall behind
GROUPS_MAX: Final = 200  # groups whose lag is looked up, those with members first
TOPICS_PER_REQUEST: Final = 500
LETTERS_SUFFIX: Final = ".dlq"
TOPIC_KEYS: Final = (
    "cleanup.policy",
    "min.insync.replicas",
    "retention.ms",
    "unclean.leader.election.enable",
)

T = TypeVar("T")


async def gather(cluster: ClusterClient) -> Facts:
    return await _Gathering(cluster).facts()


class _Gathering:
    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._unanswered: dict[str, str] = {}

    async def facts(self) -> Facts:
        cluster = self._cluster
        silent, told, described, topics, seen = await asyncio.gather(
            self._silent_bootstrap(),
            self._ask("the quorum", lambda: quorum.describe(cluster)),
            self._ask("the brokers", lambda: nodes.describe(cluster)),
            self._ask("the topics", self._topics),
            survey(cluster),  # takes as long as the others; it is wanted only if no leader answers
        )
        seen = seen if told is None else None
        ask = self._ask if seen is None else self._ask_no_controller
        facts = Facts(
            now_ms=cluster.clock.wall_ms(),
            silent_bootstrap=silent,
            survey=seen,
            quorum=told,
            nodes=described.nodes if described else (),
            topics=topics,
        )
        cluster_id = described.cluster_id if described else None
        (unreachable, statuses, broker_configs), (topic_configs, moves, listed, letters) = await asyncio.gather(
            asyncio.gather(
                self._unreachable(facts.nodes),
                self._statuses(told, seen, cluster_id),
                self._broker_configs(facts.nodes),
            ),
            asyncio.gather(
                self._ask("the topics' settings", lambda: self._topic_configs(topics or {})),
                ask("moves", lambda: reassignments.under_way(cluster)),
                ask("the groups", self._groups),
                self._ask("dead letters", lambda: self._letters(topics or {})),
            ),
        )
        facts = replace(
            facts,
            unreachable=unreachable,
            statuses=statuses,
            broker_configs=broker_configs,
            topic_configs=topic_configs or {},
            moves=moves or {},
            groups=listed or (),
        )
        if letters or any(group.lag for group in facts.groups):
            await asyncio.sleep(BETWEEN_LOOKS_S)
            facts = replace(
                facts, groups=await self._looked_at_again(facts.groups), letters=await self._more_letters(letters or {})
            )
        return replace(facts, unanswered=self._unanswered)

    async def _ask(self, what: str, question: Callable[[], Awaitable[T]]) -> T | None:
        try:
            async with asyncio.timeout(QUESTION_S):
                return await question()
        except TimeoutError:
            self._unanswered[what] = f"no answer within {QUESTION_S:.0f} s"
        except ClientError as fault:
            self._unanswered[what] = str(fault)
        return None

    async def _ask_no_controller(self, what: str, _: Callable[[], Awaitable[T]]) -> T | None:
        """In place of `_ask`, for what nobody answers without a controller."""
        self._unanswered[what] = "no controller is elected"
        return None

    # --- nodes

    async def _silent_bootstrap(self) -> dict[str, str]:
        found = await asyncio.gather(*(self._why_silent(address) for address in self._cluster.bootstrap))
        return {
            str(address): why for address, why in zip(self._cluster.bootstrap, found, strict=True) if why is not None
        }

    async def _unreachable(self, registered: Iterable[Node]) -> dict[int, str]:
        """Checks only brokers that the controller considers alive; the others are known not to answer."""
        alive = [node for node in registered if not node.is_fenced]
        found = await asyncio.gather(*(self._why_silent(Address(node.host, node.port)) for node in alive))
        return {
            node.node_id: f"{node.host}:{node.port}: {why}"
            for node, why in zip(alive, found, strict=True)
            if why is not None
        }

    async def _why_silent(self, address: Address) -> str | None:
        try:
            connection = await connect(
                self._cluster.network,
                address,
                client_id=self._cluster.client_id,
                timeout_ms=round(1000 * QUESTION_S),
            )
        except ClientError as fault:
            return str(fault)
        connection.close()
        return None

    async def _statuses(self, told: Quorum | None, seen: Survey | None, cluster_id: str | None) -> dict[int, StatusAt]:
        clock = self._cluster.clock
        now_ms = clock.wall_ms()
        if told is None:
            pages = seen.nodes if seen else ()
            return {each.node_id: StatusAt(each.page, 0, now_ms) for each in pages if each.page is not None}

        async def one(node_id: int, at: Address) -> StatusAt | None:
            asked_ms = clock.wall_ms()
            page = await status(self._cluster.network, at, cluster_id=cluster_id, node_id=node_id, timeout_s=QUESTION_S)
            return StatusAt(page, asked_ms, clock.wall_ms()) if page else None

        asked = list(told.admin.items())
        answers = await asyncio.gather(*(one(node_id, at) for node_id, at in asked))
        return {node_id: answer for (node_id, _), answer in zip(asked, answers, strict=True) if answer is not None}

    async def _broker_configs(self, registered: Iterable[Node]) -> dict[int, tuple[Config, ...]]:
        async def one(node_id: int) -> tuple[Config, ...] | None:
            resource = ConfigResource(ResourceKind.BROKER, str(node_id))
            found = await self._ask(
                f"the settings of node {node_id}", lambda: configs.describe(self._cluster, resource)
            )
            return None if found is None else tuple(each for each in found if each.source is not Source.DEFAULT)

        alive = [node.node_id for node in registered if not node.is_fenced]
        answers = await asyncio.gather(*map(one, alive))
        return {node_id: answer for node_id, answer in zip(alive, answers, strict=True) if answer is not None}

    # --- topics and groups

    async def _topics(self) -> Mapping[str, Topic]:
        return (await self._cluster.refresh(None)).topics

    async def _topic_configs(self, topics: Mapping[str, Topic]) -> dict[str, dict[str, str | None]]:
        names = sorted(name for name, topic in topics.items() if not topic.is_internal)
        found: dict[str, dict[str, str | None]] = {}
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            found |= await configs.describe_topics(self._cluster, names[start : start + TOPICS_PER_REQUEST], TOPIC_KEYS)
        return found

    async def _groups(self) -> tuple[GroupFacts, ...]:
        listed = await groups.list_all(self._cluster)
        listed.sort(key=lambda each: each.state == "Empty")
        found = await asyncio.gather(*(self._group(each.group_id) for each in listed[:GROUPS_MAX]))
        return tuple(each for each in found if each is not None)

    async def _group(self, group_id: str) -> GroupFacts | None:
        try:
            described = await groups.describe(self._cluster, group_id)
            partitions = await self._lags(group_id)
        except ClientError:
            return None  # deleted since, or not visible to this user
        return GroupFacts(group_id, described.state, len(described.members), partitions)

    async def _lags(self, group_id: str, *, with_time: bool = True) -> dict[TopicPartition, PartitionLag]:
        committed = await offsets.committed(self._cluster, group_id)
        return await lag.of(self._cluster, {at: each.offset for at, each in committed.items()}, with_time=with_time)

    async def _looked_at_again(self, some: tuple[GroupFacts, ...]) -> tuple[GroupFacts, ...]:
        async def one(group: GroupFacts) -> GroupFacts:
            if not group.lag:
                return group
            later = await self._ask(
                f"the lag of group {group.group_id}", lambda: self._lags(group.group_id, with_time=False)
            )
            return replace(group, later=later or {})

        return tuple(await asyncio.gather(*map(one, some)))

    async def _letters(self, topics: Mapping[str, Topic]) -> dict[TopicPartition, int]:
        wanted = [
            TopicPartition(name, partition)
            for name, topic in topics.items()
            if name.endswith(LETTERS_SUFFIX)
            for partition in topic.partitions
        ]
        found = await offsets.look_up(self._cluster, dict.fromkeys(wanted, LATEST)) if wanted else {}
        return {at: each.offset for at, each in found.items() if not isinstance(each, ClientError)}

    async def _more_letters(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        if not before:
            return {}
        found = await self._ask("dead letters", lambda: offsets.look_up(self._cluster, dict.fromkeys(before, LATEST)))
        return {
            at: (before[at], each.offset) for at, each in (found or {}).items() if not isinstance(each, ClientError)
        }
