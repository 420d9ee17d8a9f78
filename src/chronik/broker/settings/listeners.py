"""Addresses in a configuration: listeners, voters of the quorum, the admin listener, and the rules between them.

Nothing is resolved or opened here. An empty host means all interfaces; port 0 means any free port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from chronik.broker.errors import BadSetting
from chronik.catalogue.values import split_list

PORT_MAX = 65_535
PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_PREFIX = "SASL_"
ADMIN_PORT_OFFSET = 552  # 9092 gives 9644
NO_ADMIN = "none"
ADMIN_ENDPOINT = "CHRONIK-ADMIN"  # the name of a node's admin listener in the cluster's metadata
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - recognised here, bound nowhere

_host_port = r"(?P<host>\[[0-9a-zA-Z:.%]+\]|[^\s\[\]/:@]*):(?P<port>[0-9]+)"
_listener = re.compile(rf"(?P<name>[^\s:/]+)://{_host_port}")
_voter = re.compile(rf"(?P<id>[0-9]+)@{_host_port}")
_address = re.compile(_host_port)


class Address(NamedTuple):
    host: str
    port: int


class Listener(NamedTuple):
    name: str
    host: str  # "" for all interfaces
    port: int
    security_protocol: str = PLAINTEXT

    @property
    def needs_login(self) -> bool:
        return self.security_protocol.startswith(SASL_PREFIX)

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class Voter(NamedTuple):
    node_id: int
    host: str
    port: int


def parse_listeners(key: str, items: Iterable[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """The listeners in order. `protocols` maps names to protocols; other names are refused."""
    found: list[Listener] = []
    for item in items:
        matched = _listener.fullmatch(item)
        if matched is None:
            raise BadSetting(key, item, "write NAME://host:port")
        name = matched["name"].upper()
        if name not in protocols:
            raise BadSetting(key, item, f"listener.security.protocol.map does not say which protocol {name} speaks")
        if protocols[name] not in SERVED_PROTOCOLS:
            raise BadSetting(key, item, f"{protocols[name]} is not served, only {', '.join(SERVED_PROTOCOLS)}")
        listener = Listener(name, *_located(key, item, matched), protocols[name])
        if any(other.name == name for other in found):
            raise BadSetting(key, item, f"the name {name} is used twice")
        found.append(listener)
    return tuple(found)


def require_distinct_ports(key: str, listeners: Sequence[Listener]) -> None:
    for index, listener in enumerate(listeners):
        for other in listeners[:index]:
            same_host = listener.host == other.host or listener.host in EVERYWHERE or other.host in EVERYWHERE
            if listener.port and listener.port == other.port and same_host:
                raise BadSetting(key, str(listener), f"{other.name} has the same port")


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """Protocol by listener name, in upper case."""
    found = {}
    for item in split_list(text):
        name, _, protocol = item.partition(":")
        if not name.strip() or protocol.strip().upper() not in PROTOCOLS:
            raise BadSetting(key, item, f"write NAME:PROTOCOL, where PROTOCOL is one of {', '.join(PROTOCOLS)}")
        found[name.strip().upper()] = protocol.strip().upper()
    return found


def parse_voters(key: str, items: Iterable[str]) -> tuple[Voter, ...]:
    """In ascending order of ids."""
    found: dict[int, Voter] = {}
    for item in items:
        matched = _voter.fullmatch(item)
        if matched is None or not matched["host"]:
            raise BadSetting(key, item, "write id@host:port")
        host, port = _located(key, item, matched)
        if port == 0:
            raise BadSetting(key, item, "other nodes must be told the port: 0 will not do")
        voter = Voter(int(matched["id"]), host, port)
        if voter.node_id in found:
            raise BadSetting(key, item, f"voter {voter.node_id} is named twice")
        found[voter.node_id] = voter
    return tuple(voter for _, voter in sorted(found.items()))


def parse_addresses(key: str, items: Iterable[str]) -> tuple[Address, ...]:
    return tuple(parse_address(key, item) for item in items)


def parse_address(key: str, item: str) -> Address:
    matched = _address.fullmatch(item)
    if matched is None or not matched["host"]:
        raise BadSetting(key, item, "write host:port")
    return Address(*_located(key, item, matched))


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the host. Names are not resolved; only localhost is known."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def are_all_own(addresses: Sequence[Address], listeners: Sequence[Listener], host_name: str) -> bool:
    """Whether every address is one of these listeners, as seen from their machine."""
    return bool(addresses) and all(
        any(
            address.port == listener.port and (is_loopback(address.host) or address.host in (listener.host, host_name))
            for listener in listeners
        )
        for address in addresses
    )


def _located(key: str, item: str, matched: re.Match[str]) -> tuple[str, int]:
    port = int(matched["port"])
    if port > PORT_MAX:
        raise BadSetting(key, item, f"ports end at {PORT_MAX}")
    return matched["host"].strip("[]"), port
