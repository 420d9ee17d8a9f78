"""Finds out which nodes of the metadata quorum answer, without a leader.

All known addresses are queried concurrently, each with a time limit, so a survey takes at most about two seconds
however many nodes hang. A node without a leader reports the voters and all their listeners. Each node is then queried
at its admin listener, or at a client listener if it has no admin listener or that is not reachable from here. Never
changes anything, and never raises for a node that does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chronik.client.addresses import Address
from chronik.client.admin.quorum import ADMIN_LISTENER
from chronik.client.admin.status import status
from chronik.client.errors import ClientError
from chronik.peer.connection import connect
from chronik.wire.internal_topics import METADATA_TOPIC
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    Node,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

LIMIT_S: Final = 0.9  # per query; a survey sends at most two in sequence
VERSION_WITH_NODES: Final = 2
NODES_NAMED_MAX: Final = 10
GUIDE: Final = "docs/how-to/quorum-lost.md"


@dataclass(frozen=True, slots=True)
class Surveyed:
    node_id: int
    is_voter: bool
    address: Address | None  # for clients; None if unknown
    answers: bool
    page: dict[str, Any] | None  # its /status page, if its admin listener is reachable

    @property
    def abstains(self) -> bool:
        return self.page is not None and bool(self.page["quorum"].get("abstains"))


@dataclass(frozen=True, slots=True)
class Survey:
    term: int
    nodes: tuple[Surveyed, ...]  # ascending

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(node.node_id for node in self.nodes if node.is_voter)

    @property
    def answering(self) -> tuple[int, ...]:
        """The voters that answer."""
        return tuple(node.node_id for node in self.nodes if node.is_voter and node.answers)

    @property
    def abstaining(self) -> tuple[int, ...]:
        """Voters that answer but cannot vote: they have lost their metadata, and no leader can restore it."""
        return tuple(node.node_id for node in self.nodes if node.is_voter and node.abstains)

    @property
    def needed(self) -> int:
        """Votes needed to elect a controller."""
        return len(self.voters) // 2 + 1

    @property
    def is_lost(self) -> bool:
        """Too few voters can vote for any election to succeed."""
        return len(self.answering) - len(self.abstaining) < self.needed

    @property
    def leader_id(self) -> int | None:
        """The leader that any node reports, even if the first queried node knows none."""
        named = (node.page["quorum"]["leader_id"] for node in self.nodes if node.page is not None)
        return next((leader for leader in named if leader in self.answering), None)

    def __str__(self) -> str:
        told = f"{len(self.answering)} of {len(self.voters)} voters answer, {self.needed} are needed"
        silent = [node_id for node_id in self.voters if node_id not in self.answering]
        reasons = [f"no answer from {_named(silent)}"] if silent else []
        if self.abstaining:
            has = "has lost its" if len(self.abstaining) == 1 else "have lost their"
            reasons.append(f"{_named(self.abstaining)} {has} metadata and cannot vote: see {GUIDE}")
        return f"no controller is elected: {told}; {'; '.join(reasons) or 'an election may be in progress'}"


async def survey(cluster: ClusterClient) -> Survey | None:
    """None if any node has a leader, or if no answering node can name the voters."""
    known = [broker.address for broker in cluster.topology.brokers.values()]
    addresses = list(dict.fromkeys([*cluster.bootstrap, *known]))
    views = [view for view in await asyncio.gather(*(_view(cluster, at) for at in addresses)) if view is not None]
    if not views or any(not view.error_code for view in views):
        return None
    partition, listed = max(((_partition(view), view.nodes) for view in views), key=lambda view: view[0].leader_epoch)
    voters = {each.replica_id for each in partition.current_voters}
    if not voters:
        return None
    nodes = await asyncio.gather(*(_ask(cluster, node, voters) for node in listed))
    found = Survey(partition.leader_epoch, tuple(sorted(nodes, key=lambda node: node.node_id)))
    return None if found.leader_id is not None else found


async def _view(cluster: ClusterClient, address: Address) -> DescribeQuorumResponse | None:
    """Uses a separate connection: another pending answer on a shared one would delay this query."""
    wanted = DescribeQuorumRequestTopic(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartition(partition_index=0)]
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            connection = await connect(cluster.network, address, client_id=cluster.client_id)
            try:
                told = await connection.ask(
                    DescribeQuorumRequest(topics=[wanted]), DescribeQuorumResponse, version_min=VERSION_WITH_NODES
                )
            finally:
                connection.close()
    except (ClientError, TimeoutError):
        return None
    return told if not told.error_code or (told.topics and told.topics[0].partitions) else None


def _partition(view: DescribeQuorumResponse) -> DescribeQuorumResponsePartition:
    return view.topics[0].partitions[0]


async def _ask(cluster: ClusterClient, node: Node, voters: set[int]) -> Surveyed:
    listeners = {each.name: Address(each.host, each.port) for each in node.listeners}
    admin = listeners.pop(ADMIN_LISTENER, None)
    clients = list(listeners.values())
    page, speaks = await asyncio.gather(_page(cluster, admin, node.node_id, voters), _any_speaks(cluster, clients))
    address = clients[0] if clients else None
    return Surveyed(node.node_id, node.node_id in voters, address, page is not None or speaks, page)


async def _page(cluster: ClusterClient, admin: Address | None, node_id: int, voters: set[int]) -> dict[str, Any] | None:
    """A page with other voters belongs to another cluster: `status` says how that happens."""
    if admin is None:
        return None
    page = await status(cluster.network, admin, cluster_id=None, node_id=node_id, timeout_s=LIMIT_S)
    return page if page is not None and set(page.get("quorum", {}).get("voters", ())) == voters else None


async def _any_speaks(cluster: ClusterClient, addresses: Sequence[Address]) -> bool:
    """Whether a broker answers, not only its machine: a hanging process still accepts connections."""

    async def speaks(address: Address) -> bool:
        try:
            limit_ms = round(1000 * LIMIT_S)
            connection = await connect(cluster.network, address, client_id=cluster.client_id, timeout_ms=limit_ms)
        except ClientError:
            return False
        connection.close()
        return True

    return any(await asyncio.gather(*map(speaks, addresses)))


def _named(node_ids: Sequence[int]) -> str:
    """Reads as "node 2", "nodes 2 and 3", or the first of many."""
    shown = [str(node_id) for node_id in node_ids[:NODES_NAMED_MAX]]
    if len(node_ids) > NODES_NAMED_MAX:
        return f"nodes {', '.join(shown)} and {len(node_ids) - NODES_NAMED_MAX} more"
    return f"node {shown[0]}" if len(shown) == 1 else f"nodes {', '.join(shown[:-1])} and {shown[-1]}"
