"""Listeners, advertised listeners, voters and the admin listener: parsed, derived and refused values."""

from __future__ import annotations

import pytest

from chronik.broker.errors import BadSetting
from chronik.broker.settings import Listener, Settings, Voter
from chronik.broker.settings.listeners import Address, parse_voters


def load(text: str) -> Settings:
    return Settings.default(
        **{key.replace(".", "_"): value for key, value in (row.split("=", 1) for row in text.split())}
    )


IN_AND_OUT = "listener.security.protocol.map=IN:PLAINTEXT,out:plaintext"
LISTENERS = [
    ("listeners=PLAINTEXT://127.0.0.1:9092", [("PLAINTEXT", "127.0.0.1", 9092)]),
    ("listeners=PLAINTEXT://:0", [("PLAINTEXT", "", 0)]),
    ("listeners=plaintext://[::1]:9092", [("PLAINTEXT", "::1", 9092)]),
    (f"listeners=IN://a:1,OUT://b:2 {IN_AND_OUT} inter.broker.listener.name=in", [("IN", "a", 1), ("OUT", "b", 2)]),
    ("listeners=PLAINTEXT://a:1,CTL://a:2 controller.listener.names=CTL", [("PLAINTEXT", "a", 1)]),
    ("listeners=PLAINTEXT://127.0.0.1:1,CTL://[::1]:1 controller.listener.names=CTL", [("PLAINTEXT", "127.0.0.1", 1)]),
]


@pytest.mark.parametrize(("text", "expected"), LISTENERS)
def test_listeners_are_read_without_those_of_the_quorum(text: str, expected: list[tuple[str, str, int]]) -> None:
    """Names are upper case, a host may be empty or an IPv6 address, port 0 is kept for the system to choose."""
    assert load(text).listeners == tuple(Listener(*each) for each in expected)


ADVERTISED = [
    ("listeners=PLAINTEXT://h:9092", [("PLAINTEXT", "h", 9092)]),
    ("listeners=PLAINTEXT://:9092", [("PLAINTEXT", "localhost", 9092)]),
    ("listeners=PLAINTEXT://:0", [("PLAINTEXT", "localhost", 0)]),
    ("listeners=PLAINTEXT://0.0.0.0:9092 advertised.listeners=PLAINTEXT://x:1", [("PLAINTEXT", "x", 1)]),
    ("listeners=PLAINTEXT://:1,C://:2 controller.listener.names=C advertised.listeners=PLAINTEXT://x:1,C://x:2",
     [("PLAINTEXT", "x", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ADVERTISED)
def test_clients_are_told_what_they_can_connect_to(text: str, expected: list[tuple[str, str, int]]) -> None:
    """By default the listener itself; on all interfaces the machine's name; never the quorum's."""
    assert load(text).advertised_listeners == tuple(Listener(*each) for each in expected)


REFUSED = [
    ("listeners=", "listeners", "a broker needs a listener"),
    ("listeners=localhost:9092", "listeners", "write NAME://host:port"),
    ("listeners=PLAINTEXT://h", "listeners", "write NAME://host:port"),
    ("listeners=PLAINTEXT://h:x", "listeners", "write NAME://host:port"),
    ("listeners=PLAINTEXT://h:65536", "listeners", "ports end at 65535"),
    ("listeners=FOO://h:1", "listeners", "does not say which protocol FOO speaks"),
    ("listeners=PLAINTEXT://h:1,PLAINTEXT://h:2", "listeners", "used twice"),
    ("listeners=PLAINTEXT://h:1,C://h:1 controller.listener.names=C", "listeners", "PLAINTEXT has the same port"),
    ("listeners=PLAINTEXT://:1,C://h:1 controller.listener.names=C", "listeners", "PLAINTEXT has the same port"),
    ("listeners=PLAINTEXT://0.0.0.0:1", "listeners", "clients cannot connect to 0.0.0.0"),
    ("advertised.listeners=PLAINTEXT://0.0.0.0:1", "advertised.listeners", "clients cannot connect to 0.0.0.0"),
    ("listener.security.protocol.map=A:PLAINTEXT,PLAINTEXT:PLAINTEXT advertised.listeners=A://h:1",
     "advertised.listeners", "listeners has none named A"),
    ("listeners=PLAINTEXT://:1,C://:2 controller.listener.names=C advertised.listeners=C://h:2",
     "advertised.listeners", "must advertise"),
    ("listener.security.protocol.map=PLAINTEXT", "listener.security.protocol.map", "write NAME:PROTOCOL"),
    ("listener.security.protocol.map=PLAINTEXT:TLS", "listener.security.protocol.map", "write NAME:PROTOCOL"),
    ("listeners=PLAINTEXT://:1,C://:2 controller.listener.names=C listener.security.protocol.map=PLAINTEXT:PLAINTEXT",
     "listeners", "does not say which protocol C speaks"),
    ("inter.broker.listener.name=OTHER", "inter.broker.listener.name", "to one of PLAINTEXT"),
    ("security.inter.broker.protocol=SSL", "security.inter.broker.protocol", "to one of PLAINTEXT"),
    ("inter.broker.listener.name=C listeners=PLAINTEXT://:1,C://:2 controller.listener.names=C",
     "inter.broker.listener.name", "a listener of the quorum"),
    ("process.roles=controller", "listeners", "a controller alone listens on"),
    ("chronik.admin.listener=9644", "chronik.admin.listener", "write host:port"),
    ("controller.quorum.bootstrap.servers=h node.id=1", "controller.quorum.bootstrap.servers", "write host:port"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "reason"), REFUSED)
def test_an_address_that_cannot_work_is_refused(text: str, key: str, reason: str) -> None:
    """Better a line at the start than clients that cannot connect, or that speak plaintext where TLS was meant."""
    with pytest.raises(BadSetting) as stopped:
        load_kafka(text)
    assert stopped.value.key == key
    assert reason in stopped.value.reason


def load_kafka(text: str) -> Settings:
    return Settings.load(None, environment={}, overrides=dict(row.split("=", 1) for row in text.split()))


ADMIN = [
    ("", Address("127.0.0.1", 9644)),
    ("listeners=PLAINTEXT://h:19092", Address("127.0.0.1", 19644)),
    ("listeners=PLAINTEXT://h:0", Address("127.0.0.1", 0)),
    ("listeners=PLAINTEXT://h:65000", Address("127.0.0.1", 0)),
    ("chronik.admin.listener=0.0.0.0:1", Address("0.0.0.0", 1)),
    ("chronik.admin.listener=none", None),
]


@pytest.mark.parametrize(("text", "expected"), ADMIN)
def test_the_admin_listener_stays_on_the_machine_unless_told_otherwise(text: str, expected: Address | None) -> None:
    """Metrics and health are private, and nodes on one machine get separate ports."""
    assert load_kafka(text).admin_listener == expected


VOTERS = [
    ("", ()),
    ("1@a:1", (Voter(1, "a", 1),)),
    ("3@c:3,1@a:1,2@[::1]:2", (Voter(1, "a", 1), Voter(2, "::1", 2), Voter(3, "c", 3))),
]


@pytest.mark.parametrize(("text", "expected"), VOTERS)
def test_voters_are_read_in_the_order_of_their_ids(text: str, expected: tuple[Voter, ...]) -> None:
    """All nodes must agree on the list, in whatever order their files name it."""
    assert parse_voters("k", text.split(",") if text else []) == expected


@pytest.mark.parametrize("text", ["a:1", "1@a", "x@a:1", "1@:1", "1@a:0", "1@a:70000", "1@a:1,1@b:2"])
def test_a_voter_that_cannot_be_reached_is_refused(text: str) -> None:
    """Every voter must be told apart and found by the others."""
    with pytest.raises(BadSetting):
        parse_voters("k", text.split(","))
