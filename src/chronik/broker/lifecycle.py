"""This node's registration with the controller: it registers, sends heartbeats, and transfers its leaderships before it
stops.

A registered node is fenced until its own image shows the registration. After that, clients are directed to it as long
as it sends heartbeats. A node whose epoch is no longer the newest was replaced or removed, and stops.

A node that starts and is not a member of the quorum waits to be added, and says so. That is a new node, a removed node
that was started again, or a node whose addition timed out and was taken back while it registered. A voter that has lost
its metadata cannot tell, so it waits for a controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from chronik.broker.errors import CannotStart, NotRegistered, Replaced
from chronik.broker.features import supported_features
from chronik.broker.registrations import ID_BYTES, Registrations
from chronik.broker.settings.listeners import PROTOCOLS
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat, BrokerHeartbeatReply
from chronik.metadata.commands.register_broker import EndpointAt, RegisterBroker
from chronik.metadata.errors import MetadataError, MetadataRefused, NotController
from chronik.metadata.forwarding import NOT_A_MEMBER
from chronik.runtime.buggify import HEARTBEAT_SKIPPED
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.node import Node

T = TypeVar("T")
log = logging.getLogger("chronik.broker")

UNREGISTERED = -1  # the broker epoch of a process that has not registered yet
HAND_OVER_S = 3.0  # limits the transfer of leaderships at a stop
HAND_OVER_PAUSE_S = 0.02
JOIN_AGAIN_S = 0.1
# The controller still considers the previous process alive, or has too much to do.
REGISTERED_LATER = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT)


class Lifecycle:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.broker_epoch = UNREGISTERED
        self.incarnation_id = bytes(ID_BYTES)  # of this process; identifies its fetches to other nodes
        self.heartbeat_failures = 0  # heartbeats without a response from a controller
        self._is_leaving = False
        self._has_resigned = False  # whether the node currently asks to be fenced
        self._waits_to_be_added = False
        self._beating: asyncio.Task[object] | None = None
        # Set when the state to request has changed: the next heartbeat is due immediately.
        self._turned = asyncio.Event()
        self._outvoted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def say_if_it_waits_to_be_added(self) -> None:
        node = self._node
        if node.quorum is None or node.node_id in node.store.raft.addresses:
            return
        if not node.store.image.cluster_id and any(voter.node_id == node.node_id for voter in node.settings.voters):
            log.warning(
                "this node has lost its metadata and waits for a controller: start the other voters; "
                "if a majority has lost it, see docs/how-to/quorum-lost.md"
            )
            return  # if the controller knows no such member, it will say so
        self._wait_to_be_added()

    def _wait_to_be_added(self) -> None:
        """Logs this once per wait."""
        node = self._node
        if not self._waits_to_be_added:
            port = 0 if node.quorum is None else node.quorum.address.port
            log.warning(
                "this node waits to be added to a quorum: run `chronik cluster add %d@HOST:%d`", node.node_id, port
            )
        self._waits_to_be_added = True

    def met_stranger(self) -> None:
        """A voter belongs to another cluster. If most of them do, this node has the wrong configuration."""
        assert self._node.quorum is not None
        voters = {voter.node_id for voter in self._node.settings.voters}
        if len(voters & self._node.quorum.strangers.keys()) > len(voters) // 2 and not self._outvoted.done():
            self._outvoted.set_result(None)

    async def unless_outvoted(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Awaits a step of the start. It would wait forever if the node's data belongs to another cluster than the
        voters."""
        task = asyncio.ensure_future(waiting)
        either: list[asyncio.Future[Any]] = [task, self._outvoted]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise CannotStart(self._why_outvoted())
            return task.result()
        finally:
            task.cancel()

    def _why_outvoted(self) -> str:
        node = self._node
        assert node.quorum is not None
        strangers = sorted(node.quorum.strangers.items())
        others = ", ".join(f"node {node_id} to {cluster_id!r}" for node_id, cluster_id in strangers)
        return (
            f"{node.settings.log_dir} belongs to cluster {node.quorum.cluster_id!r}, but {others}: point log.dirs at "
            "this cluster's directory, or controller.quorum.voters at the other's nodes; or move it away to join empty"
        )

    async def register(self, directory_id: bytes, registrations: Registrations) -> None:
        """Registers with the controller, until it returns the broker epoch.

        This has a time limit, which excludes the time that the node waits to be added to the quorum.
        """
        node, settings = self._node, self._node.settings
        advertised = [
            EndpointAt(
                name=each.name,
                host=each.host,
                port=each.port or node.listeners[each.name].port,
                security_protocol=PROTOCOLS.index(each.security_protocol),
            )
            for each in settings.advertised_listeners
        ]
        self.incarnation_id = registrations.begin(node.runtime.randomness)
        command = RegisterBroker(
            broker_id=node.node_id,
            cluster_id=node.store.image.cluster_id,
            incarnation_id=self.incarnation_id,
            endpoints=[*advertised, *node.admin.endpoints()],
            rack=settings.rack,
            features=supported_features(),
            directory_ids=[directory_id],
            earlier_incarnation_ids=registrations.earlier,
        )
        timeout_s = settings.initial_broker_registration_timeout_ms / 1000
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + timeout_s
        self._waits_to_be_added = False
        while True:
            try:
                self.broker_epoch = (await node.store.submit(command)).broker_epoch
                registrations.confirm()
                return
            except MetadataError as error:
                if error.kafka_error == NOT_A_MEMBER:
                    self._wait_to_be_added()
                    give_up_s = loop.time() + timeout_s
                elif not _is_registered_later(error):
                    raise CannotStart(f"the controller does not register this node: {error}") from error
                elif loop.time() > give_up_s:
                    raise NotRegistered(f"not registered within {timeout_s:g} s: {error}") from error
                else:
                    log.info("not registered yet: %s", error)
                await asyncio.sleep(settings.broker_heartbeat_interval_ms / 1000)

    async def join(self) -> None:
        """Returns when this node is live and, if it had lost its disk, may vote.

        Meanwhile it asks whether it is still a member, because no leader would notify a node that was removed.
        """
        self._waits_to_be_added = False
        voting = asyncio.ensure_future(self._node.store.joined())
        try:
            while not voting.done():
                await asyncio.wait([voting], timeout=self._node.settings.broker_heartbeat_interval_ms / 1000)
                if not voting.done():
                    with suppress(NotController):
                        await self._is_accepted(want_fence=True)
            voting.result()
        finally:
            voting.cancel()
        while True:
            if await self._is_accepted(want_fence=False):
                return
            await asyncio.sleep(JOIN_AGAIN_S)

    async def _is_accepted(self, *, want_fence: bool) -> bool:
        """Whether the controller accepts a heartbeat. It does not while this node lags or waits to be added."""
        try:
            await self._beat(want_fence=want_fence)
        except MetadataRefused as refused:
            if refused.error_code == NOT_A_MEMBER:
                self._wait_to_be_added()
            elif refused.error_code != ErrorCode.REQUEST_TIMED_OUT:
                raise
            return False
        return True

    async def keep_alive(self) -> None:
        interval_s = self._node.settings.broker_heartbeat_interval_ms / 1000
        while not self._is_leaving:  # a heartbeat after the last one would reverse the shutdown
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._turned.wait()
            self._turned.clear()
            if HEARTBEAT_SKIPPED.is_on and HEARTBEAT_SKIPPED.fires():
                continue
            try:
                await self._beat_unless_turned()
            except MetadataRefused as refused:
                if refused.error_code == ErrorCode.STALE_BROKER_EPOCH:
                    self._node.stop_broken(self._why_stale(refused))
                    return
                log.warning("heartbeat refused: %s", refused)
            except NotController as error:
                self.heartbeat_failures += 1
                log.warning("heartbeat not delivered: %s", error)

    def _why_stale(self, refused: MetadataRefused) -> Exception:
        """Why the controller no longer accepts heartbeats of this process. The image may not show it yet, or it shows
        that the node was removed."""
        node = self._node
        registered = node.store.image.brokers.get(node.node_id)
        if registered is None:
            return refused
        is_other = registered.incarnation_id != self.incarnation_id
        others = ", ".join(f"{each.host}:{each.port}" for each in registered.endpoints) if is_other else ""
        return Replaced(node.node_id, node.settings.log_dir, others)

    def resign(self) -> bool:
        """From now on, heartbeats ask to be fenced. Returns False if the cluster has no other broker.

        It does not matter whether the others are alive: a node that cannot write its metadata cannot know.
        """
        if self._node.store.image.brokers.keys() <= {self._node.node_id}:
            return False
        self._turn(has_resigned=True)
        return True

    def resume(self) -> None:
        """Heartbeats ask to be unfenced again."""
        self._turn(has_resigned=False)

    def _turn(self, *, has_resigned: bool) -> None:
        """Cancels a heartbeat in flight: if it were repeated after the next one, it would reverse that one."""
        self._has_resigned = has_resigned
        self._turned.set()
        if self._beating is not None:
            self._beating.cancel()

    async def _beat_unless_turned(self) -> None:
        self._beating = asyncio.ensure_future(self._beat(want_shut_down=self._is_leaving))
        try:
            await asyncio.wait([self._beating])
            if not self._beating.cancelled():
                self._beating.result()
        finally:
            self._beating.cancel()
            self._beating = None

    async def hand_over(self) -> None:
        """Before a clean stop: transfers leaderships to other nodes first, so that no produce request fails."""
        self._is_leaving = True
        node = self._node
        if not node.settings.controlled_shutdown_enable or not any(
            broker.broker_id != node.node_id for broker in node.store.image.live_brokers
        ):
            return
        handing_over = asyncio.ensure_future(self._hand_over())
        give_up_s = asyncio.get_running_loop().time() + HAND_OVER_S
        while not handing_over.done():
            await asyncio.wait([handing_over], timeout=HAND_OVER_PAUSE_S)
            if node.store.majority_is_dead():
                break  # the other nodes stop as well, so no node can take over
            if asyncio.get_running_loop().time() > give_up_s:
                log.warning("stopping without transferring leadership: it took more than %d s", HAND_OVER_S)
                break
        handing_over.cancel()
        await asyncio.wait([handing_over])

    async def _hand_over(self) -> None:
        try:
            await self._lose_leaderships()
            await self._node.store.hand_over()
        except MetadataError as error:
            log.warning("stopping without transferring leadership: %s", error)

    async def _lose_leaderships(self) -> None:
        while True:
            reply = await self._beat(want_shut_down=True)
            if reply.should_shut_down:
                return
            await asyncio.sleep(HAND_OVER_PAUSE_S)

    async def _beat(self, *, want_fence: bool = False, want_shut_down: bool = False) -> BrokerHeartbeatReply:
        node = self._node
        return await node.store.submit(
            BrokerHeartbeat(
                broker_id=node.node_id,
                broker_epoch=self.broker_epoch,
                want_fence=want_fence or self._has_resigned,
                want_shut_down=want_shut_down,
            )
        )


def _is_registered_later(error: MetadataError) -> bool:
    return isinstance(error, NotController) or error.kafka_error in REGISTERED_LATER
