"""Requests of clients about their metrics: the order of Kafka's checks, and when a client is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronik.broker.telemetry.clients import CLIENT_BYTES, Caller, Clients
from chronik.broker.telemetry.subscriptions import Subscriptions, Wanted
from chronik.metadata.image import EMPTY, Image
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.push_telemetry import PushTelemetryRequest
from tests.broker.telemetry.configured import configured

ID, OTHER = b"\x07" * 16, b"\x08" * 16
INTERVAL_MS = 1_000
NONE, EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
INVALID, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SUBSCRIPTION_ID
CODEC, LARGE = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.TELEMETRY_TOO_LARGE
BYTES_MAX = 10


class FakeConnection:
    def __init__(self) -> None:
        self.is_lost = False
        self.on_lost: dict[Callable[[], None], None] = {}

    def lose(self) -> None:
        self.is_lost = True
        for call in list(self.on_lost):
            call()


class World:
    """One node's clients, a clock, and a caller."""

    def __init__(self, image: Image | None = None, clients_max: int = 10) -> None:
        self.held_bytes = 0
        self.now_ms = 1_000_000
        self.clients = Clients(clients_max * CLIENT_BYTES, self._keep)
        self.clients.subscriptions.follow(image or configured(rd={"metrics": "*", "interval.ms": str(INTERVAL_MS)}))
        self.connection = FakeConnection()

    def _keep(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes

    def get(self, instance_id: bytes = ID, connection: FakeConnection | None = None) -> ErrorCode:
        return _error(self.clients.get(instance_id, Caller(connection or self.connection, {}), self.now_ms))

    def push(
        self, instance_id: bytes = ID, *, last: bool = False, wrong: bool = False, codec: int = 0, size: int = 1
    ) -> ErrorCode:
        current = self.clients.subscriptions.wanted_from(instance_id, {}).subscription_id
        request = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=current ^ wrong,
            terminating=last,
            compression_type=codec,
            metrics=bytes(size),
        )
        return _error(self.clients.push(request, Caller(self.connection, {}), BYTES_MAX, self.now_ms))


def _error(answer: Wanted | ErrorCode) -> ErrorCode:
    return answer if isinstance(answer, ErrorCode) else NONE


class Step(NamedTuple):
    """After this pause, `get` or a push with these arguments is answered so."""

    pause_ms: int
    answer: ErrorCode
    get: bool = False
    last: bool = False
    wrong: bool = False
    codec: int = 0
    size: int = 1


COURSES: dict[str, list[Step]] = {
    "a push directly after the subscription is in time": [Step(0, NONE, get=True), Step(1, NONE), Step(999, EARLY)],
    "one push per interval": [Step(0, NONE), Step(999, EARLY), Step(1, NONE), Step(1_000, NONE)],
    "an early push does not delay the next": [Step(0, NONE), Step(500, EARLY), Step(500, NONE)],
    "a subscription is asked for once per interval": [
        *(Step(0, NONE, get=True), Step(999, EARLY, get=True), Step(1, NONE, get=True)),
    ],
    "a push counts for asking too": [Step(0, NONE), Step(999, EARLY, get=True), Step(1, NONE, get=True)],
    "who pushed for another subscription may ask at once": [
        *(Step(0, UNKNOWN, wrong=True), Step(1, NONE, get=True), Step(1, EARLY, get=True)),
    ],
    "who used an unknown codec may ask at once": [Step(0, CODEC, codec=5), Step(1, NONE, get=True)],
    "other errors do not let a client ask earlier": [Step(0, LARGE, size=11), Step(1, EARLY, get=True)],
    "the last push may come at any time": [Step(0, NONE), Step(1, NONE, last=True)],
    "nothing is taken after the last push": [Step(0, NONE, last=True), Step(2_000, INVALID, last=True)],
    "but a refused push withdraws it, as in Kafka": [
        *(Step(0, NONE, last=True), Step(2_000, INVALID), Step(2_000, NONE)),
    ],
    "time is checked before the subscription": [Step(0, NONE), Step(1, EARLY, wrong=True, codec=9, size=11)],
    "the subscription is checked before the codec": [Step(0, UNKNOWN, wrong=True, codec=9, size=11)],
    "the codec is checked before the size": [Step(0, CODEC, codec=9, size=11)],
    "a negative codec is unknown": [Step(0, CODEC, codec=-1)],
    "the largest payload": [Step(0, NONE, size=10)],
    "after an hour of silence everything is new": [Step(0, NONE, last=True), Step(3_600_000, NONE)],
}


def test_requests_are_checked_in_kafkas_order() -> None:
    for name, course in COURSES.items():
        world = World()
        for number, step in enumerate(course):
            world.now_ms += step.pause_ms
            push = {"last": step.last, "wrong": step.wrong, "codec": step.codec, "size": step.size}
            answer = world.get() if step.get else world.push(**push)  # type: ignore[arg-type]
            assert answer is step.answer, f"{name}, step {number}"


def test_reserved_ids_do_not_push() -> None:
    world = World()
    assert [world.push(reserved) for reserved in (bytes(16), bytes(15) + b"\x01")] == [INVALID] * 2
    assert len(world.clients) == 0


def test_a_changed_subscription_is_told_at_once() -> None:
    """A client that waits an hour for its next push must not collect the wrong metrics for that long."""
    world = World()
    assert world.get() is NONE
    world.clients.subscriptions.follow(configured(rd={"metrics": "b", "interval.ms": "5000"}))
    assert world.get() is NONE
    assert world.get() is EARLY


def test_a_client_is_forgotten_with_the_connection_on_which_it_appeared() -> None:
    world = World()
    first = world.connection
    world.get()
    other = FakeConnection()
    assert world.get(connection=other) is EARLY
    other.lose()
    assert world.get() is EARLY
    first.lose()
    assert (len(world.clients), world.held_bytes) == (0, 0)


def test_a_connection_that_is_gone_already_is_not_waited_for() -> None:
    world = World()
    world.connection.lose()
    world.get()
    assert not world.connection.on_lost


def test_many_clients_of_one_connection_register_with_it_once() -> None:
    world = World()
    for number in range(5):
        world.get(bytes([number]) * 16)
    assert len(world.connection.on_lost) == 1


def test_silent_clients_are_forgotten() -> None:
    world = World()
    world.get()
    world.now_ms += 60_000
    world.get(OTHER)
    assert (world.clients.has(ID), world.clients.has(OTHER)) == (False, True)


def test_beyond_the_bound_the_client_that_was_silent_longest_makes_room() -> None:
    world = World(clients_max=2)
    for instance_id in (ID, OTHER):
        world.get(instance_id)
    world.get(ID)
    world.get(b"\x09" * 16)
    assert (world.clients.has(ID), world.clients.has(OTHER), len(world.clients)) == (True, False, 2)
    assert world.held_bytes == 2 * CLIENT_BYTES


def test_a_client_gets_all_that_matches_it_at_the_shortest_interval() -> None:
    """As Kafka: never less often than every five minutes; `*` stands for all other names."""
    subscriptions = Subscriptions()
    subscriptions.follow(
        configured(
            some={"metrics": "a,b", "interval.ms": "3600000"},
            java={"metrics": "b,c", "interval.ms": "2000", "match": "client_software_name=apache-kafka-.*"},
            both={"metrics": "*", "match": "client_id=x,client_source_address=10\\..*"},
        )
    )

    def wanted(**client: str | None) -> tuple[tuple[str, ...], int]:
        return subscriptions.wanted_from(ID, client)[:2]

    assert wanted() == (("a", "b"), 300_000)
    assert wanted(client_software_name="apache-kafka-java") == (("a", "b", "c"), 2_000)
    assert wanted(client_software_name="not apache-kafka-java") == (("a", "b"), 300_000)
    assert wanted(client_id="x", client_source_address="10.1.2.3") == (("*",), 300_000)
    assert wanted(client_id="x", client_source_address=None) == (("a", "b"), 300_000)


def test_subscription_ids_are_kafkas() -> None:
    """CRC-32C of the text `[*]1000`, which is 848016057, combined with the hash that Java gives the client's id."""
    subscriptions = Subscriptions()
    subscriptions.follow(configured(rd={"metrics": "*", "interval.ms": "1000"}))
    for instance_id, java_hash in (
        (ID, 0),
        (b"\x00\x00\x00\x05" + bytes(11) + b"\x03", 6),
        (b"\x80" + bytes(15), 1 << 31),
    ):
        found = subscriptions.wanted_from(instance_id, {}).subscription_id
        assert -(2**31) <= found < 2**31
        assert found & 0xFFFFFFFF == 848016057 ^ java_hash


def test_a_subscription_that_an_older_release_let_through_is_not_used() -> None:
    subscriptions = Subscriptions()
    subscriptions.follow(configured(bad={"metrics": "a", "match": "no_such=x"}, good={"metrics": "b"}))
    assert subscriptions.wanted_from(ID, {}).metrics == ("b",)


def test_without_subscriptions_nothing_is_wanted() -> None:
    subscriptions = Subscriptions()
    subscriptions.follow(EMPTY)
    assert subscriptions.wanted_from(ID, {})[:2] == ((), 300_000)
