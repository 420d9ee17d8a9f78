"""Requests from node to node, in the simulator: peers that restart, are slow, never answer, move, or are not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.peer.addresses import Address
from chronik.peer.errors import NotSent, QueueFull
from chronik.peer.peers import CONNECT_MS_MAX, Peers
from chronik.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from chronik.wire.notation import Request, Response
from chronik.wire.peer import Bounds
from chronik.wire.peer_errors import Closed, PeerError, Refused, Unreachable, Unsupported
from tests.client.scripted import HANG_UP, NO_ANSWER, Handler, ScriptedBroker
from tests.peer.machines import Machines
from tests.peer.test_connection import SASL_AUTHENTICATION_FAILED, Password

ASKED = ListGroupsRequest()


def groups(number: int = 0) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time_ms=number, error_code=0, groups=[])


def broker(answer: Handler | None = None, **named: Any) -> ScriptedBroker:
    return ScriptedBroker({ListGroupsRequest: answer or (lambda request, version: groups())}, **named)


async def ask(peers: Peers, node_id: int = 2, timeout_ms: int = 10_000) -> int:
    return (await peers.ask(node_id, ASKED, ListGroupsResponse, timeout_ms=timeout_ms)).throttle_time_ms


async def outcomes(*questions: Any) -> list[Any]:
    return await asyncio.gather(*questions, return_exceptions=True)


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (WriteTxnMarkersRequest(markers=[]), WriteTxnMarkersResponse(markers=[])),
        (
            AddPartitionsToTxnRequest(transactions=[]),
            AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=0, results_by_transaction=[]),
        ),
    ],
)
def test_any_api_reaches_another_node(request_: Request, response: Response) -> None:
    """Over one connection, in the newest version that both nodes know."""
    machines = Machines()
    there = ScriptedBroker({type(request_): lambda request, version: response})
    machines.addresses[2] = machines.start("two", there)

    async def work() -> None:
        peers = machines.peers()
        answers = await asyncio.gather(*(peers.ask(2, request_, type(response)) for _ in range(10)))
        assert answers == [response] * 10
        assert peers.under_way_count(2) == 0

    machines.run(work())
    assert machines.connection_count == 1
    assert {version for request, version in there.asked if type(request) is type(request_)} == {
        type(request_).versions.last
    }


def test_the_leader_of_a_partition_is_asked() -> None:
    """A marker is sent to the current leader of its partition; without a leader the caller decides how long to wait."""
    machines = Machines()
    for node_id, host in ((2, "two"), (3, "three")):
        machines.addresses[node_id] = machines.start(host, broker(lambda request, version, n=node_id: groups(n)))

    async def work() -> None:
        peers = machines.peers()
        for leader_id in (2, 3):
            machines.leaders["orders", 0] = leader_id
            assert (await peers.ask_leader("orders", 0, ASKED, ListGroupsResponse)).throttle_time_ms == leader_id
        with pytest.raises(Refused, match="partition orders-1: LEADER_NOT_AVAILABLE"):
            await peers.ask_leader("orders", 1, ASKED, ListGroupsResponse)

    machines.run(work())


def test_a_node_that_is_not_up_yet_gets_its_request_when_it_is() -> None:
    """Attempts become rarer, up to one per second: a cluster that starts must not be busy with refusals."""
    machines = Machines()
    machines.addresses[2] = Address("two", 9092)
    machines.wires.host("two")
    attempts = attempts_of(machines)

    async def work() -> None:
        assert await ask(machines.peers(), timeout_ms=30_000) == 0

    task = machines.loop.create_task(work())
    machines.time.run_until(lambda: machines.time.now_ms >= 9_000, within_ms=10_000)
    assert not task.done()
    assert 9 <= len(attempts) <= 16
    machines.start("two", broker())
    machines.time.run_until(task.done, within_ms=1_300)
    task.result()


def attempts_of(machines: Machines) -> list[int]:
    """The times at which the asking node tried to connect."""
    network, attempts = machines.runtime.network, []
    connect = network.connect

    def counted(*given: Any) -> Any:
        attempts.append(machines.time.now_ms)
        return connect(*given)

    network.connect = counted  # type: ignore[method-assign]
    return attempts


def test_a_node_without_address_is_waited_for_and_named() -> None:
    """Its registration may be on the way. Nothing was sent, which the error says."""
    machines = Machines()

    async def work() -> None:
        peers = machines.peers()
        with pytest.raises(
            NotSent, match="ListGroups was not sent to broker 2 within 500 ms: its address is not known"
        ):
            await ask(peers, timeout_ms=500)
        late = asyncio.create_task(ask(peers))
        await asyncio.sleep(2)
        machines.addresses[2] = there
        await late

    there = machines.start("two", broker())
    machines.run(work())


def test_a_peer_that_restarts_costs_what_was_in_flight_and_nothing_else() -> None:
    """Requests in flight may have been applied, so they are not repeated here. Waiting requests are sent to the new
    process."""
    machines = Machines()
    first, second = broker(lambda request, version: NO_ANSWER), broker()
    machines.addresses[2] = machines.start("two", first)
    results: list[Any] = []

    async def work() -> None:
        peers = machines.peers(bounds=Bounds(in_flight_max=2))
        results.extend(await outcomes(*(ask(peers) for _ in range(5))))

    task = machines.loop.create_task(work())
    machines.time.run_until(lambda: len(first.asked_for(ListGroupsRequest)) == 2, within_ms=1_000)
    machines.kill("two")
    machines.time.run_until(lambda: machines.time.now_ms > 700, within_ms=1_000)
    machines.start("two", second)
    assert machines.time.run_until(task.done, within_ms=2_000)
    assert [type(each) for each in results] == [Unreachable] * 2 + [int] * 3
    assert all("two:9092 closed the connection before it answered ListGroups" in str(each) for each in results[:2])
    assert len(second.asked_for(ListGroupsRequest)) == 3


def test_a_slow_peer_holds_back_its_own_requests_only() -> None:
    """All are answered in order, each when its turn comes, and another node does not notice."""
    machines = Machines()
    numbers = iter(range(100))

    async def slowly(request: Any, version: int) -> ListGroupsResponse:
        await asyncio.sleep(0.1)
        return groups(next(numbers))

    machines.addresses[2] = machines.start("two", broker(slowly))
    machines.addresses[3] = machines.start("three", broker())

    async def work() -> None:
        peers = machines.peers(bounds=Bounds(in_flight_max=4))
        questions = [asyncio.create_task(ask(peers)) for _ in range(20)]
        await asyncio.sleep(0.3)
        assert peers.under_way_count(2) >= 15
        before_ns = machines.time.now_ns
        await ask(peers, 3)
        assert machines.time.now_ns - before_ns < 50_000_000
        assert await asyncio.gather(*questions) == list(range(20))

    machines.run(work())
    assert machines.connection_count == 2


def test_a_full_queue_refuses_at_once() -> None:
    """Back-pressure: a peer that has hung must not fill this node's memory. Room is free again when requests end."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", broker(lambda request, version: NO_ANSWER))

    async def work() -> None:
        peers = machines.peers(under_way_max=10)
        results = await outcomes(*(ask(peers, timeout_ms=2_000) for _ in range(12)))
        assert [type(each) for each in results] == [Unreachable] * 10 + [QueueFull] * 2
        assert str(results[-1]).startswith("10 requests to broker 2")
        assert peers.under_way_count(2) == 0
        machines.addresses[3] = machines.addresses[2]
        [result] = await outcomes(ask(peers, timeout_ms=100))
        assert not isinstance(result, QueueFull)

    machines.run(work())


def test_a_caller_that_gives_up_frees_its_place() -> None:
    """Cancelling is normal: a transaction that is aborted needs no verification any more."""
    machines = Machines()
    machines.addresses[2] = Address("two", 9092)

    async def work() -> None:
        peers = machines.peers(under_way_max=1)
        for _ in range(3):
            question = asyncio.create_task(ask(peers))
            await asyncio.sleep(0.5)
            question.cancel()
            await asyncio.wait([question])
        assert peers.under_way_count(2) == 0

    machines.run(work())


def test_a_reply_that_never_comes_ends_the_connection() -> None:
    """Later responses cannot arrive. The next request uses a new connection, and gets its response."""
    machines = Machines()
    silent = iter([NO_ANSWER])
    there = broker(lambda request, version: next(silent, groups(7)))
    machines.addresses[2] = machines.start("two", there)

    async def work() -> None:
        peers = machines.peers()
        with pytest.raises(Unreachable, match=r"two:9092.* ListGroups request without answer for 1000 ms") as caught:
            await ask(peers, timeout_ms=1_000)
        assert not isinstance(caught.value, NotSent), "it was sent"
        assert await ask(peers, timeout_ms=1_000) == 7

    assert machines.run(work()) < 1_500
    assert machines.connection_count == 2


def test_a_machine_without_power_is_given_up_and_found_again() -> None:
    """It sends no notification, and connections to it hang."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", broker())

    async def work() -> None:
        peers = machines.peers()
        await ask(peers)
        machines.wires.power_lost("two")
        results = await outcomes(ask(peers, timeout_ms=1_000), ask(peers, timeout_ms=3 * CONNECT_MS_MAX))
        assert [type(each) for each in results] == [Unreachable, Unreachable]
        with pytest.raises(NotSent, match=rf"two:9092 did not answer within {CONNECT_MS_MAX} ms"):
            await ask(peers, timeout_ms=3 * CONNECT_MS_MAX)

    machines.run(work())
    machines.wires.power_returned("two")
    machines.start("two", broker())

    async def again() -> None:
        await ask(machines.peers())

    machines.run(again())


def test_a_peer_that_moved_is_asked_at_its_new_address() -> None:
    """Also if the old one still answers: another broker may listen there now."""
    machines = Machines()
    old, new = broker(lambda request, version: groups(1)), broker(lambda request, version: groups(2))
    machines.addresses[2] = machines.start("two", old)

    async def work() -> None:
        peers = machines.peers()
        assert await ask(peers) == 1
        machines.addresses[2] = there
        assert await ask(peers) == 2
        await asyncio.sleep(0.1)
        assert not machines.wires.host("two").transports, "the old connection is closed"

    there = machines.start("elsewhere", new)
    machines.run(work())


def test_what_was_asked_at_the_old_address_is_told_that_the_peer_moved() -> None:
    """A response from there would be another node's. The request may have been applied, and retrying may help."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", broker(lambda request, version: NO_ANSWER))

    async def work() -> None:
        peers = machines.peers()
        old = asyncio.create_task(ask(peers))
        await asyncio.sleep(1)
        machines.addresses[2] = there
        assert await ask(peers) == 0
        with pytest.raises(Unreachable, match="broker 2 is no longer at two:9092"):
            await old

    there = machines.start("elsewhere", broker())
    machines.run(work())


def test_a_new_address_is_tried_at_once() -> None:
    """However long the pause at the old one had become."""
    machines = Machines()
    machines.addresses[2] = Address("gone", 9092)
    machines.wires.host("gone")

    async def work() -> None:
        peers = machines.peers()
        with pytest.raises(NotSent, match="broker 2 at gone:9092 within 9000 ms"):
            await ask(peers, timeout_ms=9_000)
        machines.addresses[2] = there
        before_ms = machines.time.now_ms
        await ask(peers)
        assert machines.time.now_ms - before_ms < 20

    there = machines.start("two", broker())
    machines.run(work())


def test_two_nodes_that_exchange_addresses_do_not_disturb_each_other() -> None:
    """Connections belong to a node and an address: another node may be using the address that a node has left."""
    machines = Machines()
    two, three = (
        machines.start(host, broker(lambda request, version, n=n: groups(n))) for n, host in ((2, "two"), (3, "three"))
    )

    async def work() -> None:
        peers = machines.peers()
        for here, there in ((two, three), (three, two)) * 3:
            machines.addresses |= {2: here, 3: there}
            assert await asyncio.gather(ask(peers, 2), ask(peers, 3)) == [2, 3] if here is two else [3, 2]

    machines.run(work())


def test_a_peer_that_has_answered_is_tried_at_once_when_its_connection_ends() -> None:
    """However long it had been away before: pauses are for peers that do not answer."""
    machines = Machines()
    machines.addresses[2] = Address("two", 9092)
    machines.wires.host("two")
    attempts = attempts_of(machines)

    async def begin() -> None:
        await ask(peers, timeout_ms=30_000)

    async def again() -> None:
        machines.wires.reset("asker", "two")
        await asyncio.sleep(0.001)
        before_ms = machines.time.now_ms
        await ask(peers)
        assert machines.time.now_ms - before_ms < 20

    async def without() -> None:
        await asyncio.sleep(0.1)
        attempts.clear()
        with pytest.raises(NotSent):
            await ask(peers, timeout_ms=1_000)

    peers = machines.peers()
    task = machines.loop.create_task(begin())
    machines.time.run_until(lambda: machines.time.now_ms >= 9_000, within_ms=10_000)
    machines.start("two", broker())
    assert machines.time.run_until(task.done, within_ms=2_000)
    machines.run(again())
    machines.kill("two")
    machines.run(without())
    assert len(attempts) >= 4, "pauses begin anew, with the shortest"


def test_what_waits_for_an_unreachable_peer_follows_it_to_its_new_address() -> None:
    """A broker that comes back on another machine registers there; requests wait for it within their timeout."""
    machines = Machines()
    machines.addresses[2] = Address("gone", 9092)
    machines.wires.host("gone")

    async def work() -> None:
        peers = machines.peers()
        question = asyncio.create_task(ask(peers))
        await asyncio.sleep(3)
        machines.addresses[2] = there
        await question

    there = machines.start("two", broker())
    assert machines.run(work()) < 3_000 + 1_300


def test_a_peer_that_hangs_up_on_every_request_is_tried_more_and_more_rarely() -> None:
    """Connecting succeeds each time, so only an answer may make the pause short again."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", broker(lambda request, version: HANG_UP))

    async def work() -> None:
        peers = machines.peers()
        while machines.time.now_ms < 10_000:
            [result] = await outcomes(ask(peers))
            assert isinstance(result, Unreachable)

    machines.run(work())
    assert machines.connection_count <= 17


def test_an_older_node_that_lacks_an_api_is_named_and_stays_connected() -> None:
    """During an upgrade: the caller uses an alternative, and other requests continue."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", broker())

    async def work() -> None:
        peers = machines.peers()
        with pytest.raises(Unsupported, match="two:9092 does not serve WriteTxnMarkers"):
            await peers.ask(2, WriteTxnMarkersRequest(markers=[]), WriteTxnMarkersResponse)
        await ask(peers)

    machines.run(work())
    assert machines.connection_count == 1


def guarded() -> ScriptedBroker:
    def authenticate(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        code = 0 if bytes(request.auth_bytes) == b"sesame" else SASL_AUTHENTICATION_FAILED
        return SaslAuthenticateResponse(error_code=code, error_message=None, auth_bytes=b"")

    return ScriptedBroker(
        {
            SaslHandshakeRequest: lambda request, version: SaslHandshakeResponse(error_code=0, mechanisms=["TOY"]),
            SaslAuthenticateRequest: authenticate,
            ListGroupsRequest: lambda request, version: groups(),
        }
    )


def test_a_node_logs_in_before_it_asks() -> None:
    """Credentials belong to the whole node; each connection gets a separate mechanism."""
    machines = Machines()
    there = guarded()
    machines.addresses[2] = machines.start("two", there)
    made: list[Address] = []

    def login(address: Address) -> Password:
        made.append(address)
        return Password(b"sesame")

    async def work() -> None:
        peers = machines.peers(login=login)
        await asyncio.gather(ask(peers), ask(peers))

    machines.run(work())
    assert made == [Address("two", 9092)]
    asked = [type(request).__name__.removesuffix("Request") for request, _ in there.asked]
    assert asked == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListGroups", "ListGroups"]


def test_refused_credentials_are_told_to_the_caller_and_not_tried_at_full_speed() -> None:
    """An account may be locked after a few attempts."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", guarded())

    async def work() -> None:
        peers = machines.peers(login=lambda address: Password(b"guess"))
        results = await outcomes(*(ask(peers) for _ in range(8)))
        assert all(isinstance(each, Refused) for each in results), results

    assert machines.run(work()) > 2_000


def test_the_end_reaches_everybody_who_waits() -> None:
    """In flight, in the queue, or in the pause before the next attempt."""
    machines = Machines()
    machines.addresses[2] = machines.start("two", broker(lambda request, version: NO_ANSWER))
    machines.addresses[3] = Address("nowhere", 1)

    async def work() -> None:
        peers = machines.peers(bounds=Bounds(in_flight_max=1))
        questions = [asyncio.create_task(ask(peers, node_id)) for node_id in (2, 2, 3, 3)]
        await asyncio.sleep(1.2)
        peers.close()
        results = await outcomes(*questions)
        assert [type(each) for each in results] == [Closed] * 4
        with pytest.raises(Closed):
            await ask(peers)

    assert machines.run(work()) < 2_500


def test_every_error_is_a_peer_error() -> None:
    """Callers catch one class at the edge of their work."""
    assert all(issubclass(each, PeerError) for each in (NotSent, QueueFull))
