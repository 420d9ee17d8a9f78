"""A node registers with a controller that has much to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chronik.broker.errors import CannotStart, NotRegistered
from chronik.broker.lifecycle import Lifecycle
from chronik.broker.registrations import Registrations
from chronik.metadata.commands.register_broker import RegisterBrokerReply
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.forwarding import NOT_A_MEMBER
from chronik.sim.disk import SimDisk
from chronik.wire.error_codes import ErrorCode
from tests.broker.harness import SeededRandomness
from tests.raft.virtual_time import run

TIMEOUT_MS = 5_000


class Store:
    """A controller that refuses some registrations, then takes one."""

    image = SimpleNamespace(cluster_id="cluster")

    def __init__(self, error: ErrorCode, times: int) -> None:
        self._error, self._left = error, times

    async def submit(self, command: object) -> RegisterBrokerReply:
        if self._left:
            self._left -= 1
            raise MetadataRefused(self._error, "come again later")
        return RegisterBrokerReply(broker_epoch=7)


async def register(store: Store) -> int:
    disk = SimDisk(1)
    disk.make_directory("/data")
    settings = SimpleNamespace(
        advertised_listeners=[],
        rack=None,
        initial_broker_registration_timeout_ms=TIMEOUT_MS,
        broker_heartbeat_interval_ms=100,
    )
    node: Any = SimpleNamespace(
        settings=settings,
        store=store,
        node_id=1,
        quorum=None,
        admin=SimpleNamespace(endpoints=list),
        runtime=SimpleNamespace(randomness=SeededRandomness(1)),
    )
    lifecycle = Lifecycle(node)
    await lifecycle.register(bytes(16), Registrations(disk, "/data", is_used=False))
    return lifecycle.broker_epoch


def test_a_node_that_starts_waits_for_a_controller_with_too_many_commands() -> None:
    async def story() -> None:
        assert await register(Store(ErrorCode.REQUEST_TIMED_OUT, times=3)) == 7

    run(story)


def test_the_time_that_it_waits_to_be_added_to_the_quorum_does_not_count() -> None:
    """The operator may add it again much later, and the node must still be running."""

    async def story() -> None:
        assert await register(Store(NOT_A_MEMBER, times=1000)) == 7

    run(story)


def test_it_gives_up_after_a_time_and_a_service_manager_may_start_it_again() -> None:
    """As without a quorum. The exit code differs from that of a node whose configuration cannot work."""

    async def story() -> None:
        with pytest.raises(NotRegistered, match=rf"not registered within {TIMEOUT_MS / 1000:g} s: .*come again later"):
            await register(Store(ErrorCode.REQUEST_TIMED_OUT, times=1000))

    run(story)


def test_it_does_not_wait_if_the_controller_will_never_register_it() -> None:
    async def story() -> None:
        with pytest.raises(CannotStart, match=r"does not register this node: .*come again later") as raised:
            await register(Store(ErrorCode.INCONSISTENT_CLUSTER_ID, times=1))
        assert not isinstance(raised.value, NotRegistered)

    run(story)
