"""One connection: version negotiation, the order of responses, time-outs, and errors when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from chronik.client.addresses import Address
from chronik.client.errors import BadAnswer, ClientError, Closed, LoginFailed, Refused, Unreachable, Unsupported
from chronik.peer.connection import IN_FLIGHT_MAX, Connection, connect
from chronik.peer.connections import Connections
from chronik.wire.framing import pack_size
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.peer import Bounds
from tests.client.machine import Machine
from tests.client.scripted import HANG_UP, NO_ANSWER, Handler, ScriptedBroker

BROKER = Address("broker", 9092)
SASL_AUTHENTICATION_FAILED = 58
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def groups(count: int = 0, **_: Any) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time_ms=count, error_code=0, groups=[])


def serve(
    handlers: dict[type, Handler] | None = None, versions: dict[int, str] | None = None
) -> tuple[Machine, ScriptedBroker]:
    machine = Machine()
    broker = ScriptedBroker(
        {ListGroupsRequest: lambda request, version: groups()} | (handlers or {}), versions=versions
    )
    machine.network.listening[BROKER] = broker
    return machine, broker


class Password:
    """A toy of a login: one message, and the broker's consent."""

    name = "TOY"

    def __init__(self, password: bytes) -> None:
        self._password = password

    def first(self) -> bytes:
        return self._password

    def answer(self, challenge: bytes) -> bytes | None:
        return None


def guarded(lifetime_ms: int = 0) -> tuple[Machine, ScriptedBroker]:
    """A broker that wants the password "sesame"."""

    def handshake(request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=0, mechanisms=["TOY"])

    def authenticate(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        code = 0 if bytes(request.auth_bytes) == b"sesame" else SASL_AUTHENTICATION_FAILED
        return SaslAuthenticateResponse(
            error_code=code, error_message=None, auth_bytes=b"", session_lifetime_ms=lifetime_ms
        )

    return serve({SaslHandshakeRequest: handshake, SaslAuthenticateRequest: authenticate})


def connected(machine: Machine) -> Coroutine[Any, Any, Connection]:
    return connect(machine.network, BROKER, client_id="test")


@pytest.mark.parametrize(("served", "spoken"), [("0-5", 5), ("0-2", 2), ("3-9", 5), ("4", 4)])
def test_a_request_goes_out_in_the_highest_version_both_know(served: str, spoken: int) -> None:
    """Too high is refused by the broker, too low loses what newer versions can say."""
    machine, broker = serve(versions={16: served})

    async def work() -> None:
        await (await connected(machine)).ask(ListGroupsRequest(), ListGroupsResponse)

    machine.run(work())
    assert [version for request, version in broker.asked if isinstance(request, ListGroupsRequest)] == [spoken]


def test_a_caller_may_narrow_the_versions() -> None:
    """Some callers cannot use the newest form: one names topics by ids that they may not know."""
    machine, broker = serve()

    async def work() -> None:
        await (await connected(machine)).ask(ListGroupsRequest(), ListGroupsResponse, version_max=3)

    machine.run(work())
    assert broker.asked[-1][1] == 3


@pytest.mark.parametrize("served", ["6-9", "0-1"])
def test_no_common_version_names_both_ranges(served: str) -> None:
    """The user has to know which side to upgrade."""
    machine, _ = serve(versions={16: served})

    async def work() -> None:
        await (await connected(machine)).ask(ListGroupsRequest(), ListGroupsResponse, version_min=2)

    with pytest.raises(Unsupported, match=rf"broker:9092 serves ListGroups {served}, this client needs 2-5"):
        machine.run(work())


def test_an_api_that_is_not_served_is_said_before_anything_is_sent() -> None:
    """Kafka closes the connection on an unknown key, which would cost every other request in flight."""
    machine, broker = serve()

    async def work() -> None:
        await (await connected(machine)).ask(HEARTBEAT, HeartbeatResponse)

    with pytest.raises(Unsupported, match="does not serve Heartbeat"):
        machine.run(work())
    assert len(broker.asked) == 1


def test_a_broker_too_old_for_our_api_versions_is_asked_again() -> None:
    """Every Kafka responds to an ApiVersions request with an unknown version in v0, with the versions that it
    serves."""
    machine, broker = serve(versions={18: "0-2"})

    async def work() -> None:
        connection = await connected(machine)
        assert connection.apis[16] == ListGroupsRequest.versions

    machine.run(work())
    assert [version for request, version in broker.asked if isinstance(request, ApiVersionsRequest)] == [0]


def test_answers_go_to_those_who_asked_in_order() -> None:
    """The wire has no other way to tell answers apart than order and correlation id."""
    counter = iter(range(100))
    machine, _ = serve({ListGroupsRequest: lambda request, version: groups(next(counter))})

    async def work() -> list[int]:
        connection = await connected(machine)
        answers = await asyncio.gather(
            *(connection.ask(ListGroupsRequest(), ListGroupsResponse) for _ in range(IN_FLIGHT_MAX * 3 // 2))
        )
        return [answer.throttle_time_ms for answer in answers]

    assert machine.run(work()) == list(range(IN_FLIGHT_MAX * 3 // 2))


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    """A broker that is slow must slow its client down, not fill its memory."""
    machine, broker = serve({ListGroupsRequest: lambda request, version: NO_ANSWER})

    async def work() -> None:
        connection = await connected(machine)
        tasks = [
            asyncio.create_task(connection.ask(ListGroupsRequest(), ListGroupsResponse))
            for _ in range(IN_FLIGHT_MAX + 10)
        ]
        await asyncio.sleep(1)
        assert len(broker.asked_for(ListGroupsRequest)) == connection.in_flight_count == IN_FLIGHT_MAX
        connection.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, Closed) for result in results)

    machine.run(work())


def test_requests_wait_while_too_many_bytes_are_in_flight() -> None:
    """Three large requests, of which one fits: each goes out when the one before it is answered."""
    seen: list[int] = []

    async def slowly(request: Any, version: int) -> HeartbeatResponse:
        seen.append(connection.in_flight_count)
        await asyncio.sleep(0.1)
        return HeartbeatResponse(error_code=0)

    machine, _ = serve({HeartbeatRequest: slowly})
    large = HeartbeatRequest(group_id="g" * 2000, generation_id=1, member_id="m")

    async def work() -> None:
        nonlocal connection
        connection = await connect(
            machine.network, BROKER, client_id="test", bounds=Bounds(in_flight_bytes_max=1000, in_flight_max=2)
        )
        await asyncio.gather(*(connection.ask(large, HeartbeatResponse) for _ in range(3)))

    connection: Connection = None  # type: ignore[assignment]
    machine.run(work())
    assert seen == [1, 1, 1]


def test_whoever_waits_for_room_hears_that_the_connection_ended() -> None:
    """No caller may wait for room that will never come."""
    machine, _ = serve({HeartbeatRequest: lambda request, version: NO_ANSWER})

    async def work() -> None:
        bounds = Bounds(in_flight_bytes_max=10)
        connection = await connect(machine.network, BROKER, client_id="test", bounds=bounds)
        tasks = [asyncio.create_task(connection.ask(HEARTBEAT, HeartbeatResponse)) for _ in range(3)]
        await asyncio.sleep(1)
        assert connection.in_flight_count == 1
        machine.network.cut(*BROKER)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [Unreachable] * 3

    machine.run(work())


def test_a_login_comes_before_the_first_request() -> None:
    """A client with credentials gets a connection that is logged in."""
    machine, broker = guarded()

    async def work() -> None:
        connection = await connect(machine.network, BROKER, client_id="test", mechanism=Password(b"sesame"))
        await connection.ask(ListGroupsRequest(), ListGroupsResponse)

    machine.run(work())
    asked = [type(request).__name__.removesuffix("Request") for request, _ in broker.asked]
    assert asked == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListGroups"]


def test_a_login_that_fails_leaves_no_connection_behind() -> None:
    """A node that tries again and again must not pile up sockets."""
    machine, _ = guarded()

    async def work() -> None:
        with pytest.raises(Refused, match=r"cannot log in at broker:9092 with SASL mechanism TOY"):
            await connect(machine.network, BROKER, client_id="test", mechanism=Password(b"guess"))
        assert [link.is_open for link in machine.network.links] == [False]

    machine.run(work())


def test_a_caller_that_gives_up_while_it_connects_leaves_no_connection_behind() -> None:
    """A node that tries again and again must not pile up sockets."""
    machine, _ = serve()
    machine.network.silent.add(BROKER)

    async def work() -> None:
        connecting = asyncio.create_task(connected(machine))
        await asyncio.sleep(1)
        connecting.cancel()
        await asyncio.wait([connecting])
        assert [link.is_open for link in machine.network.links] == [False]

    machine.run(work())


def test_an_overdue_answer_ends_the_connection_and_says_where() -> None:
    """Later responses cannot arrive either, and the caller must learn which broker hangs."""
    machine, _ = serve({HeartbeatRequest: lambda request, version: NO_ANSWER})

    async def work() -> None:
        connection = await connected(machine)
        behind = asyncio.create_task(connection.ask(ListGroupsRequest(), ListGroupsResponse))
        await asyncio.sleep(0.1)
        with pytest.raises(Unreachable, match=r"broker:9092 left a Heartbeat request without answer for 500 ms"):
            await connection.ask(HEARTBEAT, HeartbeatResponse, timeout_ms=500)
        assert not connection.is_open
        await behind

    machine.run(work())
    assert machine.clock.now_ns < 2_000_000_000


def test_a_connection_that_ends_fails_everybody_who_waits() -> None:
    """No caller may wait for a response that cannot come."""
    machine, _ = serve({HeartbeatRequest: lambda request, version: HANG_UP})

    async def work() -> None:
        connection = await connected(machine)
        with pytest.raises(Unreachable, match=r"broker:9092 closed the connection before it answered Heartbeat"):
            await connection.ask(HEARTBEAT, HeartbeatResponse)
        with pytest.raises(Unreachable):
            await connection.ask(HEARTBEAT, HeartbeatResponse)

    machine.run(work())


def test_a_caller_that_gave_up_leaves_the_others_in_order() -> None:
    """Cancelling is normal: a poll that ends must not cost the connection."""
    counter = iter(range(10))

    async def slowly(request: Any, version: int) -> ListGroupsResponse:
        await asyncio.sleep(0.1)
        return groups(next(counter))

    machine, _ = serve({ListGroupsRequest: slowly})

    async def work() -> None:
        connection = await connected(machine)
        first, second, third = (
            asyncio.create_task(connection.ask(ListGroupsRequest(), ListGroupsResponse)) for _ in range(3)
        )
        await asyncio.sleep(0.05)
        second.cancel()
        assert (await first).throttle_time_ms == 0
        assert (await third).throttle_time_ms == 2

    machine.run(work())


def test_nobody_listening_says_host_and_port() -> None:
    """The most common error: the broker is not running, or has another address."""
    machine = Machine()
    with pytest.raises(Unreachable, match=r"cannot connect to broker:9092: Connection refused; is a broker running"):
        machine.run(connected(machine))


def test_a_listener_that_never_answers_is_given_up() -> None:
    """A port of another program often just waits for more data."""
    machine, _ = serve()
    machine.network.silent.add(BROKER)
    with pytest.raises(Unreachable, match=r"broker:9092 did not answer within 10000 ms: is it a Kafka listener"):
        machine.run(connected(machine))


class Babbler:
    """Something on the port that does not speak Kafka."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply

    def opened(self, send: Any, hang_up: Any) -> None:
        self.send = send

    def received(self, data: bytes) -> None:
        self.send(self.reply)

    def closed(self) -> None:
        pass


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        pack_size(10) + bytes(10),  # an ApiVersions answer cut short
        pack_size(15) + bytes.fromhex("00000007 0000 01 00000000 00 000000"),  # a valid response to another request
        pack_size(-5),
    ],
)
def test_a_peer_that_does_not_speak_kafka_is_named(reply: bytes) -> None:
    """An HTTP port or a TLS listener given as bootstrap is an everyday mistake."""
    machine = Machine()
    machine.network.listening[BROKER] = lambda: Babbler(reply)
    with pytest.raises(BadAnswer, match=r"broker:9092: .*is this a plaintext Kafka listener"):
        machine.run(connected(machine))


def test_large_answers_arrive_whole() -> None:
    """Frames over the scratch buffer take another path through the reader."""
    from chronik.wire.messages.list_groups import ListedGroup

    many = [ListedGroup(group_id=f"group-{index:06}" * 10, protocol_type="consumer") for index in range(5_000)]
    answer = ListGroupsResponse(error_code=0, groups=many)
    machine, _ = serve({ListGroupsRequest: lambda request, version: answer})

    async def work() -> ListGroupsResponse:
        return await (await connected(machine)).ask(ListGroupsRequest(), ListGroupsResponse)

    assert machine.run(work()).groups == many


def test_every_error_of_the_package_is_a_client_error() -> None:
    """Callers catch one class at the edge of their work."""
    assert all(issubclass(each, ClientError) for each in (BadAnswer, Closed, Unreachable, Unsupported))


class Slow:
    """A login whose answer is computed elsewhere."""

    name = "TOY"

    def __init__(self, computed: Callable[[], Awaitable[bytes | None]]) -> None:
        self._computed = computed

    def first(self) -> bytes:
        return b"sesame"

    def answer(self, challenge: bytes) -> Awaitable[bytes | None]:
        return self._computed()


def test_a_step_that_takes_long_is_waited_for_and_the_loop_goes_on() -> None:
    machine, _ = guarded()
    steps: list[str] = []

    async def computed() -> None:
        steps.append("begun")
        await asyncio.sleep(1)
        steps.append("ended")

    async def work() -> None:
        connection = await connect(machine.network, BROKER, client_id="test", mechanism=Slow(computed))
        steps.append("ready")
        await connection.ask(ListGroupsRequest(), ListGroupsResponse)

    machine.run(work())
    assert steps == ["begun", "ended", "ready"]


def test_a_step_that_fails_ends_the_connection() -> None:
    machine, _ = guarded()

    async def computed() -> None:
        raise LoginFailed("the salt is odd")

    with pytest.raises(LoginFailed, match="the salt is odd"):
        machine.run(connect(machine.network, BROKER, client_id="test", mechanism=Slow(computed)))


def test_a_connection_whose_login_ends_is_replaced_before() -> None:
    """Brokers close it when the login expires, and pending requests would be lost."""
    machine, _ = guarded(lifetime_ms=10_000)

    async def work() -> None:
        connections = Connections(machine.network, "test", login=lambda address: Password(b"sesame"))
        first = await connections.to(BROKER)
        await asyncio.sleep(8.4)
        assert await connections.to(BROKER) is first
        await asyncio.sleep(0.2)
        assert (first.is_retired, first.is_open) == (True, True)
        second = await connections.to(BROKER)
        assert second is not first
        await first.ask(ListGroupsRequest(), ListGroupsResponse)
        await asyncio.sleep(1.2)
        assert not first.is_open
        with pytest.raises(Unreachable, match="the login at broker:9092 has expired"):
            await first.ask(ListGroupsRequest(), ListGroupsResponse)
        await second.ask(ListGroupsRequest(), ListGroupsResponse)
        connections.close()

    machine.run(work())
