"""TLS in the simulator: subjects without cryptography, so that a node's rules about them run unchanged."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from chronik.runtime.errors import TlsFailed
from chronik.runtime.tls import ClientAuth, Identity, TlsClient, TlsServer
from chronik.sim.loop import VirtualTime
from chronik.sim.network import SimNetwork, Wires

PORT = 9000
NODE, ALICE = (Identity("", "", subject) for subject in ("CN=node", "CN=alice"))


class Subject(asyncio.Protocol):
    """Records what each end learns about the other."""

    seen = "not connected"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.seen = str(transport.get_extra_info("tls_subject"))


def meet(server: TlsServer | None, client: TlsClient | None) -> tuple[str, str]:
    """The subject that each end sees: the server's, the client's. Raises what connecting raises."""
    time = VirtualTime()
    wires = Wires(time, Random(1))
    there = SimNetwork(wires, "server", time.process("server"))
    here = SimNetwork(wires, "client", time.process("client"))
    accepted = Subject()
    listening = there.loop.create_task(there.listen("server", PORT, lambda: accepted, server))
    assert time.run_until(listening.done, within_ms=1000)
    connecting = here.loop.create_task(here.connect("server", PORT, Subject, client))
    assert time.run_until(connecting.done, within_ms=1000)
    _, connected = connecting.result()
    return accepted.seen, connected.seen  # type: ignore[attr-defined]


def test_each_end_sees_the_subject_of_the_other() -> None:
    required = TlsServer(NODE, client_auth=ClientAuth.REQUIRED)
    assert meet(required, TlsClient(ALICE)) == ("CN=alice", "CN=node")
    assert meet(TlsServer(NODE, client_auth=ClientAuth.REQUESTED), TlsClient()) == ("None", "CN=node")
    assert meet(TlsServer(NODE), TlsClient(ALICE)) == ("None", "CN=node"), "the server did not request a certificate"
    assert meet(None, None) == ("None", "None")


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        (TlsServer(NODE), None, "the other does not"),
        (None, TlsClient(), "the other does not"),
        (TlsServer(NODE, client_auth=ClientAuth.REQUIRED), TlsClient(), "wants a certificate"),
    ],
)
def test_ends_that_do_not_agree_do_not_meet(server: TlsServer | None, client: TlsClient | None, reason: str) -> None:
    with pytest.raises(TlsFailed, match=reason):
        meet(server, client)
