"""Settings that depend on several keys, and the rules between keys. The rules are Kafka's, unless a comment says why
not.

Takes typed values by key; reads nothing and opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chronik.broker.errors import BadSetting
from chronik.broker.settings.access import access_policy
from chronik.broker.settings.exposure import SECRET, SECRET_CHARS_MIN
from chronik.broker.settings.layers import Layers
from chronik.broker.settings.listeners import (
    ADMIN_PORT_OFFSET,
    EVERYWHERE,
    NO_ADMIN,
    PLAINTEXT,
    PORT_MAX,
    Address,
    Listener,
    Voter,
    parse_address,
    parse_addresses,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
    require_distinct_ports,
)
from chronik.broker.settings.sasl import broker_login, sasl_listeners
from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.catalogue.values import split_list
from chronik.runtime.machine import Machine
from chronik.runtime.units import GIB

ROLES = ("broker", "controller")
LOOPBACK = "127.0.0.1"

# (smaller, larger): the first must not exceed the second.
AT_MOST = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
POSITIVE = ("broker.heartbeat.interval.ms", "broker.session.timeout.ms", "request.timeout.ms")


class Sockets(NamedTuple):
    """All listeners of a node, by purpose."""

    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    inter_broker_name: str


def resolve(values: Mapping[str, Any], layers: Layers, machine: Machine) -> dict[str, Any]:
    """The fields of Settings that depend on several keys. Raises BadSetting if keys contradict each other."""
    _require_order(values, layers)
    roles = ROLES if values["process.roles"] is None else values["process.roles"]
    if not roles:
        raise BadSetting("process.roles", "", "allowed: broker, controller")
    voters = parse_voters("controller.quorum.voters", values["controller.quorum.voters"])
    bootstrap = parse_addresses("controller.quorum.bootstrap.servers", values["controller.quorum.bootstrap.servers"])
    node_id = _node_id(values, voters, has_peers=bool(voters or bootstrap))
    sockets = _sockets(values, layers, machine, is_broker="broker" in roles)
    _require_quorum_fits(roles, node_id, voters, bootstrap, sockets)
    log_dir, *other_log_dirs = _log_dirs(values, layers)
    keys = {**layers.static, **layers.cluster, **layers.own}
    return {
        "node_id": node_id,
        "is_broker": "broker" in roles,
        "is_controller": "controller" in roles,
        "rack": values["broker.rack"] or None,
        "log_dir": log_dir,
        "other_log_dirs": tuple(each for each in other_log_dirs if each != log_dir),
        "metadata_dir": values["metadata.log.dir"] or log_dir,
        "listeners": sockets.listeners,
        "advertised_listeners": sockets.advertised,
        "controller_listeners": sockets.controllers,
        "inter_broker_listener_name": sockets.inter_broker_name,
        "admin_listener": _admin_listener(values, sockets),
        "voters": voters,
        "controller_quorum_bootstrap_servers": bootstrap,
        "memory_budget_bytes": _memory_budget_bytes(values, machine),
        "log_retention_ms": retention_ms(values),
        "log_roll_ms": roll_ms(values),
        "max_connections_per_ip_overrides": _overrides_per_ip(values),
        "access_policy": access_policy(values),
        "delegation_token_max_lifetime_ms": values["delegation.token.max.lifetime.ms"],
        "delegation_token_expiry_time_ms": values["delegation.token.expiry.time.ms"],
        "delegation_token_expiry_check_interval_ms": values["delegation.token.expiry.check.interval.ms"],
        "delegation_token_key": str(values["delegation.token.secret.key"] or "").encode(),
        "quorum_secret": _quorum_secret(values),
        "sasl_listeners": sasl_listeners(sockets.listeners, keys, values),
        "broker_login": broker_login(sockets.inter_broker_name, sockets.listeners, keys, values),
    }


def retention_ms(values: Mapping[str, Any]) -> int:
    """Milliseconds take precedence over minutes, and minutes over hours. Negative means unlimited; 0 would keep
    nothing."""
    for key, unit_ms, _ in TOPIC_CONFIGS["retention.ms"].synonyms:
        if values[key] is not None:
            if values[key] == 0:
                raise BadSetting(key, 0, "keep records for 1 or more, or -1 for ever")
            return -1 if values[key] < 0 else int(values[key] * unit_ms)
    return -1


def roll_ms(values: Mapping[str, Any]) -> int:
    synonyms = TOPIC_CONFIGS["segment.ms"].synonyms
    return next(int(values[key] * unit_ms) for key, unit_ms, _ in synonyms if values[key] is not None)


def _require_order(values: Mapping[str, Any], layers: Layers) -> None:
    for key in POSITIVE:
        if values[key] <= 0:
            raise BadSetting(key, values[key], "allowed is 1 or more")
    for smaller, larger in AT_MOST:
        if values[smaller] > values[larger]:
            key = smaller if layers.is_set(smaller) else larger
            reason = f"{smaller} ({values[smaller]}) may not exceed {larger} ({values[larger]})"
            raise BadSetting(key, values[key], reason)


def _node_id(values: Mapping[str, Any], voters: Sequence[Voter], *, has_peers: bool) -> int:
    node_id, broker_id = values["node.id"], values["broker.id"]
    if node_id is None and broker_id >= 0:
        return int(broker_id)
    if node_id is None:
        if has_peers:
            raise BadSetting("node.id", None, "a node among others needs a number of its own")
        return 1
    if broker_id >= 0 and broker_id != node_id:
        raise BadSetting("broker.id", broker_id, f"node.id is {node_id}: set one of them, or both to the same number")
    return int(node_id)


def _log_dirs(values: Mapping[str, Any], layers: Layers) -> list[str]:
    key = "log.dirs" if values["log.dirs"] else "log.dir"
    directories = values[key]
    if not directories or not all(directories):
        raise BadSetting(key, layers.value(key), "name a directory")
    return [str(each) for each in directories]


def _sockets(values: Mapping[str, Any], layers: Layers, machine: Machine, *, is_broker: bool) -> Sockets:
    controller_names = tuple(name.upper() for name in values["controller.listener.names"] or ())
    protocols = parse_protocol_map("listener.security.protocol.map", values["listener.security.protocol.map"])
    if not layers.is_set("listener.security.protocol.map"):
        protocols = {**dict.fromkeys(controller_names, PLAINTEXT), **protocols}
    found = parse_listeners("listeners", values["listeners"], protocols)
    require_distinct_ports("listeners", found)
    listeners = tuple(each for each in found if each.name not in controller_names)
    controllers = tuple(each for each in found if each.name in controller_names)
    for each in controllers:
        if each.needs_login:
            reason = f"nodes of the quorum prove themselves by {SECRET}, not by SASL: map it to {PLAINTEXT}"
            raise BadSetting("listener.security.protocol.map", f"{each.name}:{each.security_protocol}", reason)
    if not is_broker:
        if listeners:
            raise BadSetting("listeners", listeners[0], "a controller alone listens on controller.listener.names only")
        return Sockets((), (), controllers, "")
    if not listeners:
        raise BadSetting("listeners", layers.value("listeners"), "a broker needs a listener for clients")
    advertised = _advertised(values, listeners, controller_names, protocols, machine)
    return Sockets(listeners, advertised, controllers, _inter_broker_name(values, advertised, controller_names))


def _advertised(
    values: Mapping[str, Any],
    listeners: Sequence[Listener],
    controller_names: Sequence[str],
    protocols: Mapping[str, str],
    machine: Machine,
) -> tuple[Listener, ...]:
    key = "advertised.listeners"
    named = values[key]
    told = parse_listeners(key, named, protocols) if named else tuple(listeners)
    advertised = []
    for each in told:
        if each.name in controller_names:
            continue  # Kafka allows it in the file; clients do not get it
        if all(listener.name != each.name for listener in listeners):
            raise BadSetting(key, each, f"listeners has none named {each.name}")
        if each.host in EVERYWHERE and each.host:
            raise BadSetting(
                key if named else "listeners", each, f"clients cannot connect to {each.host}: set advertised.listeners"
            )
        advertised.append(each if each.host else each._replace(host=machine.host_name))
    if not advertised:
        raise BadSetting(key, ",".join(named), "a broker must advertise a listener to its clients")
    return tuple(advertised)


def _inter_broker_name(
    values: Mapping[str, Any], advertised: Sequence[Listener], controller_names: Sequence[str]
) -> str:
    key = "inter.broker.listener.name" if values["inter.broker.listener.name"] else "security.inter.broker.protocol"
    name = str(values[key]).upper()
    if name in controller_names:
        raise BadSetting(key, name, "brokers may not talk to each other on a listener of the quorum")
    if all(each.name != name for each in advertised):
        names = ", ".join(each.name for each in advertised)
        raise BadSetting(key, name, f"brokers cannot meet there: set inter.broker.listener.name to one of {names}")
    return name


def _require_quorum_fits(
    roles: Sequence[str], node_id: int, voters: Sequence[Voter], bootstrap: Sequence[Address], sockets: Sockets
) -> None:
    key = "controller.quorum.voters"
    is_voter = any(voter.node_id == node_id for voter in voters)
    if voters and "controller" in roles and not is_voter:
        raise BadSetting("node.id", node_id, f"a controller must be among the voters of {key}")
    if voters and "controller" not in roles and is_voter:
        raise BadSetting("node.id", node_id, f"a broker alone may not be among the voters of {key}")
    if "controller" not in roles and not voters and not bootstrap:
        raise BadSetting(key, "", "a broker alone must find the quorum: set it, or controller.quorum.bootstrap.servers")
    if "controller" in roles and len(voters) > 1 and not sockets.controllers:
        raise BadSetting("controller.listener.names", "", "the other voters need a listener to reach this one by")


def _admin_listener(values: Mapping[str, Any], sockets: Sockets) -> Address | None:
    text = values["chronik.admin.listener"]
    if text == NO_ADMIN:
        return None
    if text:
        return parse_address("chronik.admin.listener", text)
    first = (*sockets.listeners, *sockets.controllers)[:1]
    port = first[0].port if first else 0
    fits = 0 < port <= PORT_MAX - ADMIN_PORT_OFFSET
    return Address(LOOPBACK, port + ADMIN_PORT_OFFSET if fits else 0)


def _memory_budget_bytes(values: Mapping[str, Any], machine: Machine) -> int:
    explicit = values["chronik.memory.budget.bytes"]
    return min(machine.memory_bytes // 4, GIB) if explicit is None else int(explicit)


def _quorum_secret(values: Mapping[str, Any]) -> bytes:
    secret = str(values[SECRET] or "")
    if secret and len(secret) < SECRET_CHARS_MIN:
        raise BadSetting(SECRET, "[hidden]", f"{SECRET_CHARS_MIN} characters or more, so that nobody can guess it")
    return secret.encode()


def _overrides_per_ip(values: Mapping[str, Any]) -> dict[str, int]:
    key = "max.connections.per.ip.overrides"
    found = {}
    for item in split_list(values[key]):
        host, _, count = item.rpartition(":")
        if not host or not count.isdecimal():
            raise BadSetting(key, item, "write host:count")
        found[host] = int(count)
    return found
