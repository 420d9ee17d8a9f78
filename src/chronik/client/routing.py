"""Routes requests to brokers: bootstrap, metadata, leaders, coordinators, and retries.

A `ClusterClient` owns all connections of one client (`peer.connections`) and its view of the cluster. It fetches
metadata for unknown topics, or when a broker reports outdated metadata. It never interprets a response: callers raise
Refused, and `retrying` retries as long as Kafka classifies the error as retriable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, TypeVar

from chronik.client.addresses import Address, parse_addresses
from chronik.client.errors import ClientError, Refused, Unreachable, refuse
from chronik.client.topology import Topic, Topology
from chronik.peer.backoff import Backoff
from chronik.peer.connection import CONNECT_TIMEOUT_MS, Connection
from chronik.peer.connections import Connections, Login, no_login
from chronik.runtime.secured_network import SecuredNetwork
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.notation import Request, Response

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Clock, Network, Randomness, Runtime
    from chronik.runtime.tls import TlsClient

A = TypeVar("A", bound=Response)
T = TypeVar("T")

RETRY_TIMEOUT_MS: Final = 30_000
METADATA_AGE_MS_MAX: Final = 300_000  # errors reveal moved leaders; this finds new partitions
GROUP: Final = 0  # FindCoordinator's key types
TRANSACTION: Final = 1
MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class ClusterClient:
    """The connections of one client to a cluster, and its metadata. Close it, or use it in `async with`."""

    def __init__(
        self,
        runtime: Runtime,
        bootstrap: str | Sequence[Address],
        *,
        client_id: str = "chronik",
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        login: Login = no_login,
        tls: TlsClient | None = None,
    ) -> None:
        """With `tls`, every connection uses it."""
        self.network: Network = runtime.network if tls is None else SecuredNetwork(runtime.network, lambda: tls)
        self.clock: Clock = runtime.clock
        self.randomness: Randomness = runtime.randomness
        self.bootstrap = parse_addresses(bootstrap) if isinstance(bootstrap, str) else tuple(bootstrap)
        self.client_id = client_id
        self.topology = Topology()
        self._connections = Connections(self.network, client_id, connect_timeout_ms=connect_timeout_ms, login=login)
        self.scratch = self._connections.scratch  # shared with other connections of the same event loop
        self._coordinators: dict[tuple[int, str], int] = {}
        self._stale_from_ns = 0  # topics fetched before this time are outdated

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._connections.close()
        await asyncio.sleep(0)  # lets the transports finish closing before the loop ends

    # --- connections

    async def to_any(self) -> Connection:
        """Some broker: one with an open connection, else the first known one that answers."""
        connection = self._connections.any_open()
        if connection is not None:
            return connection
        known = [broker.address for broker in self.topology.brokers.values()]
        start = self.randomness.below(len(known)) if known else 0
        faults: list[ClientError] = []
        for address in dict.fromkeys([*known[start:], *known[:start], *self.bootstrap]):
            try:
                return await self._connections.to(address)
            except Unreachable as fault:
                faults.append(fault)
        raise faults[0] if len(faults) == 1 else Unreachable("; ".join(map(str, faults)))

    async def to_node(self, node_id: int, purpose: str = "") -> Connection:
        """The broker with this id; fetches metadata if it is unknown."""
        if node_id not in self.topology.brokers:
            await self.refresh([])
        address = self.topology.address_of(node_id)
        if address is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id}", "the cluster does not list it as alive")
        return await self._connections.to(address, purpose)

    async def to_controller(self) -> Connection:
        """The broker that accepts changes. Every broker of a KRaft cluster forwards them, so any one is used if the
        controller is unknown or does not answer: metadata names a dead controller until another is elected."""
        if not self.topology.brokers:
            await self.refresh([])
        if self.topology.controller_id in self.topology.brokers:
            with suppress(Unreachable):
                return await self.to_node(self.topology.controller_id)
        return await self.to_any()

    # --- metadata

    async def refresh(self, topics: Iterable[str] | None, *, creates: bool = False) -> Topology:
        """Fetches metadata of these topics (None: all). `creates` lets the broker create missing ones."""
        names = None if topics is None else list(topics)
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=creates,
        )
        connection = await self.to_any()
        # From v1 on an empty list requests no topic; from v4 on the broker creates topics only on request.
        response = await connection.ask(request, MetadataResponse, version_min=4)
        refuse(response.error_code, "cannot fetch the cluster's metadata")
        self.topology = self.topology.merged(response, is_everything=names is None)
        return self.topology

    def known_topic(self, name: str) -> Topic | None:
        """A topic's cached metadata if it is recent; a fast path for calls per record."""
        return self.topology.topics.get(name) if self.clock.monotonic_ns() < self._stale_from_ns else None

    async def topic(self, name: str, *, creates: bool = False) -> Topic:
        """A topic's metadata, fetched if it is missing or may be outdated."""
        now_ns = self.clock.monotonic_ns()
        if now_ns >= self._stale_from_ns:
            self.topology = Topology(self.topology.cluster_id, self.topology.controller_id, self.topology.brokers)
            self._stale_from_ns = now_ns + METADATA_AGE_MS_MAX * NS_PER_MS
        if name not in self.topology.topics:
            await self.refresh([name], creates=creates)
        return self.topology.topic(name)

    def forget(self, topic: str) -> None:
        """The topic's metadata was wrong: fetch it again at the next use."""
        self.topology = self.topology.without(topic)

    # --- coordinators

    async def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """The node that coordinates a group or a transactional id."""
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self.topology.brokers:
            return known
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        connection = await self.to_any()
        response = await connection.ask(request, FindCoordinatorResponse, version_min=4)
        [found] = response.coordinators
        refuse(found.error_code, f"cannot find the coordinator of {key!r}", found.error_message)
        if found.node_id not in self.topology.brokers:
            await self.refresh([])
        self._coordinators[key_type, key] = found.node_id
        return found.node_id

    def forget_coordinator(self, key: str, key_type: int = GROUP) -> None:
        self._coordinators.pop((key_type, key), None)

    async def ask_coordinator(
        self,
        key: str,
        request: Request,
        answer: type[A],
        *,
        key_type: int = GROUP,
        version_min: int = 0,
        version_max: int = 2**15 - 1,
        timeout_ms: int = RETRY_TIMEOUT_MS,
        purpose: str = "",
    ) -> A:
        """Sends one request to the coordinator of a group or a transactional id. If the coordinator is unreachable, the
        next request looks it up again."""
        node_id = await self.coordinator(key, key_type)
        try:
            connection = await self.to_node(node_id, purpose)
            return await connection.ask(
                request, answer, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms
            )
        except Unreachable:
            self.forget_coordinator(key, key_type)
            raise

    def refuse_from_coordinator(
        self, key: str, code: int, what: str, detail: str | None = None, *, key_type: int = GROUP
    ) -> None:
        """`refuse`, but if the code means that the coordinator has moved, drops it from the cache first."""
        if code in MOVED:
            self.forget_coordinator(key, key_type)
        refuse(code, what, detail)

    # --- trying again

    async def retrying(self, work: Callable[[], Awaitable[T]], *, timeout_ms: int = RETRY_TIMEOUT_MS) -> T:
        """Runs `work` until it succeeds, fails permanently, or the time is up; then raises the last error."""
        end_ns = self.clock.monotonic_ns() + timeout_ms * NS_PER_MS
        backoff = Backoff(self.randomness)
        while True:
            try:
                return await work()
            except ClientError as fault:
                wait_ms = backoff.next_ms()
                if not fault.retriable or self.clock.monotonic_ns() + wait_ms * NS_PER_MS >= end_ns:
                    raise
            await asyncio.sleep(wait_ms / 1000)
