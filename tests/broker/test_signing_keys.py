"""The keys of tokens on a running node: read at the start, again over time, and early when one is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from chronik.broker.errors import BadSetting
from chronik.broker.settings.oauthbearer import BearerListener
from chronik.broker.signing_keys import EARLY_PAUSE_MS, SigningKeys
from chronik.peer.http import allowed_url
from chronik.runtime.alarms import SIGNING_KEYS, Alarms
from chronik.runtime.interfaces import Runtime
from chronik.security.bearer_tokens import BadToken
from chronik.sim.disk import SimDisk
from tests.broker.harness import NOW_MS, memory_runtime
from tests.broker.hostile import WorldClock, run
from tests.broker.sasl.tokens import key_set, token_of

PATH = "/etc/keys.json"
NOW_S = NOW_MS // 1000
REFRESH_MS = 600_000


class Web:
    """A network on which one web server answers, as long as `body` is there."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.asked = 0

    async def connect(self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: Any = None) -> Any:
        assert tls is not None
        self.asked += 1
        if self.body is None:
            raise OSError(111, f"cannot connect to {host}:{port}")
        protocol = factory()
        asyncio.get_running_loop().call_soon(self._answer, protocol, self.body)
        return _Transport(), protocol

    @staticmethod
    def _answer(protocol: asyncio.Protocol, body: bytes) -> None:
        protocol.data_received(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        protocol.connection_lost(None)


class _Transport:
    def write(self, data: bytes) -> None:
        assert data.startswith(b"GET /keys HTTP/1.1\r\n")

    def abort(self) -> None:
        """It has ended already."""


class Desk:
    """Signing keys in virtual time, from a file or from the web."""

    def __init__(self, *, of_web: bool) -> None:
        self.disk, self.web = SimDisk(0), Web()
        self.disk.make_directory("/etc")
        clock = WorldClock(cast(Any, asyncio.get_running_loop()).clock)
        self.runtime: Runtime = memory_runtime(self.disk, clock=clock)._replace(network=cast(Any, self.web))
        self.alarms = Alarms(clock)
        settings = BearerListener(
            path=None if of_web else PATH,
            url=allowed_url("https://idp.example/keys") if of_web else None,
            issuer=None,
            audiences=frozenset(),
            clock_skew_s=30,
            subject_claim="sub",
            scope_claim="scope",
            refresh_ms=REFRESH_MS,
            retry_ms=100,
            retry_ms_max=1000,
            trust={},
        )
        self.keys = SigningKeys(self.runtime, self.disk.lane("keys"), "L", settings, self.alarms)

    def accepts(self, key: str) -> bool:
        now_s = self.runtime.clock.wall_ms() // 1000
        try:
            return self.keys.verify(token_of(now_s, key=key)).subject == "alice"
        except BadToken:
            return False


def told(story: Callable[[Desk], Awaitable[None]], *, of_web: bool) -> None:
    async def whole() -> None:
        desk = Desk(of_web=of_web)
        await story(desk)

    run(whole())


async def watched(desk: Desk, story: Callable[[], Awaitable[None]]) -> None:
    await desk.keys.open()
    watching = asyncio.ensure_future(desk.keys.watch())
    await story()
    assert not watching.done()
    watching.cancel()


@pytest.mark.parametrize("of_web", [False, True])
def test_keys_are_read_at_the_start_and_after_an_interval(of_web: bool) -> None:
    async def story(desk: Desk) -> None:
        def publish(keys: bytes) -> None:
            desk.web.body = keys
            desk.disk.replace_file(PATH, keys)

        async def over_time() -> None:
            assert (desk.accepts("EdDSA"), desk.accepts("ES256")) == (True, False)
            publish(key_set("ES256"))
            await asyncio.sleep(REFRESH_MS / 1000 + 1)
            assert (desk.accepts("EdDSA"), desk.accepts("ES256")) == (False, True)

        publish(key_set("EdDSA"))
        await watched(desk, over_time)

    told(story, of_web=of_web)


def test_a_missed_key_is_looked_for_early_and_not_too_often() -> None:
    """Strangers choose which keys their tokens name: they must not decide how often a node asks its provider."""

    async def story(desk: Desk) -> None:
        async def under_attack() -> None:
            asked = desk.web.asked
            for number in range(300):
                assert not desk.accepts(f"EdDSA-{number}")
                await asyncio.sleep(0.1)
            assert desk.web.asked - asked <= 30_000 // EARLY_PAUSE_MS
            desk.web.body = key_set("EdDSA", "ES256")
            assert not desk.accepts("ES256")
            await asyncio.sleep(EARLY_PAUSE_MS / 1000 + 1)
            assert desk.accepts("ES256")

        desk.web.body = key_set("EdDSA")
        await watched(desk, under_attack)

    told(story, of_web=True)


def test_a_provider_that_is_down_raises_an_alarm_and_takes_no_key_away() -> None:
    async def story(desk: Desk) -> None:
        async def outage() -> None:
            desk.web.body = None
            await asyncio.sleep(REFRESH_MS / 1000 + 5)
            assert desk.alarms.is_active(SIGNING_KEYS, "L")
            assert desk.accepts("EdDSA")
            desk.web.body = b"<html>we are back soon</html>"
            await asyncio.sleep(5)
            assert "not JSON" in desk.alarms.active()[0].text
            assert desk.accepts("EdDSA")
            desk.web.body = key_set("EdDSA")
            await asyncio.sleep(2)
            assert not desk.alarms.is_active(SIGNING_KEYS, "L")

        desk.web.body = key_set("EdDSA")
        await watched(desk, outage)

    told(story, of_web=True)


def test_a_node_starts_without_its_provider_and_lets_nobody_in() -> None:
    """Otherwise one outage would prevent every node that restarts meanwhile from starting."""

    async def story(desk: Desk) -> None:
        async def meanwhile() -> None:
            assert not desk.accepts("EdDSA")
            assert "nobody can log in" in desk.alarms.active()[0].text
            desk.web.body = key_set("EdDSA")
            await asyncio.sleep(2)
            assert desk.accepts("EdDSA")

        await watched(desk, meanwhile)

    told(story, of_web=True)


@pytest.mark.parametrize("data", [None, b"", b"{}", key_set("short"), b" " * (1 << 20) + key_set("EdDSA")])
def test_a_file_that_cannot_be_used_stops_the_node(data: bytes | None) -> None:
    async def story(desk: Desk) -> None:
        if data is not None:
            desk.disk.replace_file(PATH, data)
        with pytest.raises(BadSetting, match=PATH) as refused:
            await desk.keys.open()
        assert refused.value.key == "sasl.oauthbearer.jwks.endpoint.url"

    told(story, of_web=False)
