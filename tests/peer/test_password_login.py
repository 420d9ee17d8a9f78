"""Logins of nodes and clients by password: computed off the loop and once, renewed by new connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from chronik.peer.addresses import Address
from chronik.peer.password_login import KEPT_MAX, PasswordLogin
from chronik.runtime.interfaces import Runtime
from chronik.sim.disk import SimDisk
from chronik.wire.peer_errors import LoginFailed
from chronik.wire.sasl_clients import Derivation
from chronik.wire.scram import SHA_256
from tests.broker.harness import memory_runtime

T = TypeVar("T")
HERE = Address("broker", 9092)


class CountingLane:
    def __init__(self, lanes: list[CountingLane]) -> None:
        self.works = 0
        self.is_closed = False
        lanes.append(self)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        self.works += 1
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: done.set_result(work()))
        return done

    def close(self) -> None:
        self.is_closed = True


class LaneDisk:
    def __init__(self) -> None:
        self.lanes: list[CountingLane] = []

    def lane(self, name: str) -> CountingLane:
        return CountingLane(self.lanes)


def made(mechanism: str = "SCRAM-SHA-256") -> tuple[PasswordLogin, LaneDisk]:
    disk: Any = LaneDisk()
    runtime: Runtime = memory_runtime(SimDisk(0))._replace(disk=disk)
    return PasswordLogin(runtime, mechanism, "user", "pencil"), disk


def server_first(nonce: str, salt: str = "W22ZaJ0SNY7soEsUEjb6gQ==", iterations: int = 4096) -> bytes:
    return f"r={nonce}server,s={salt},i={iterations}".encode()


async def prove(login: PasswordLogin, **more: Any) -> bytes | None:
    mechanism: Any = login(HERE)
    nonce = mechanism.first().partition(b",r=")[2].decode()
    proof: bytes | None = await mechanism.answer(server_first(nonce, **more))
    return proof


def test_a_salted_password_is_computed_on_a_lane_and_once() -> None:
    """A node connects repeatedly, and 16,384 iterations block a thread for 20 ms."""

    async def story() -> None:
        login, disk = made()
        assert disk.lanes == []
        proofs = await asyncio.gather(*(prove(login) for _ in range(5)))
        assert len(set(proofs)) == 5, "each login has a nonce of its own"
        assert [lane.works for lane in disk.lanes] == [1]
        await prove(login, iterations=8192)
        assert [lane.works for lane in disk.lanes] == [2]
        login.close()
        assert disk.lanes[0].is_closed

    asyncio.run(story())


def test_what_is_kept_is_bounded() -> None:
    """A hostile broker sends another salt each time."""

    async def story() -> None:
        login, _ = made()
        for number in range(2 * KEPT_MAX):
            await prove(login, salt=f"{number:04}")
        assert len(login._kept) == KEPT_MAX

    asyncio.run(story())


def test_a_login_that_is_given_up_takes_nothing_from_the_others() -> None:
    async def story() -> None:
        login, disk = made()
        first = asyncio.ensure_future(prove(login))
        await asyncio.sleep(0)
        first.cancel()
        assert await prove(login) is not None
        assert disk.lanes[0].works == 1

    asyncio.run(story())


def test_too_many_iterations_are_not_computed() -> None:
    async def story() -> None:
        login, disk = made()
        with pytest.raises(LoginFailed, match="16385"):
            await prove(login, iterations=16_385)
        assert disk.lanes == []

    asyncio.run(story())


def test_plain_needs_no_lane_and_no_repr_has_the_password() -> None:
    login, disk = made("PLAIN")
    assert login(HERE).first() == b"\0user\0pencil"
    assert disk.lanes == []
    assert "pencil" not in repr((login, login(HERE), Derivation(SHA_256, "pencil", b"s", 1)))
