"""The files of a new cluster, open or secured, for `chronik init`. Plans first, then writes new files only.

DIR/node-N       server.properties, and with security node.pem (certificate and key) and ca.pem; data/ for records
DIR/users        with security: NAME.password and NAME.properties of each user
DIR/ca.pem       with security: the authority's certificate, which clients trust
DIR/ca.key       with security: the authority's key, which signs later certificates; no node needs it

No file is overwritten. Directories have mode 0700, files 0600. Paths in the files are absolute, so a node's directory
must be at the same path on the machine where the node runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from chronik.broker.first_rules import FILE as RULES_FILE
from chronik.broker.first_rules import encode_first_rules
from chronik.broker.first_users import FILE as USERS_FILE
from chronik.broker.first_users import encode_first_users
from chronik.broker.settings.listeners import is_loopback
from chronik.security.client_settings import Access, java, properties_text
from chronik.testing.certificates import HOSTS, Authority
from chronik.testing.local_cluster import NEW, REPLICAS_MAX
from chronik.testing.secured import (
    ADMIN,
    BROKER,
    LISTENER,
    OPEN,
    QUORUM,
    first_rules,
    first_users,
    new_password,
    node_name,
    secured,
)

AUTHORITY_DAYS: Final = 3650
NODE_DAYS: Final = 365
SECRET_FILE: Final = "quorum-secret"  # noqa: S105 - the file's name
AUTHORITY_FILE, AUTHORITY_KEY_FILE = "ca.pem", "ca.key"


class Place(NamedTuple):
    """The location of a node."""

    host: str
    port: int
    quorum_port: int

    @property
    def address(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def quorum_address(self) -> str:
        return self._replace(port=self.quorum_port).address


@dataclass(frozen=True)
class Plan:
    """The files of a cluster, not written yet."""

    directory: Path
    bootstrap: str
    server_files: list[Path]
    accesses: list[Access]  # for the users of people and programs; empty for an open cluster
    files: dict[Path, bytes] = field(repr=False)

    def password_file(self, user: str) -> Path:
        return self.directory / "users" / f"{user}.password"

    def properties_file(self, user: str) -> Path:
        return self.directory / "users" / f"{user}.properties"

    def in_the_way(self) -> list[Path]:
        """Paths that already exist, including broken links and directories."""
        return [path for path in self.files if os.path.lexists(path)]

    def write(self) -> None:
        """Raises FileExistsError instead of overwriting, and OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in self.files.items():
            for parent in reversed(path.relative_to(self.directory).parents[:-1]):
                (self.directory / parent).mkdir(mode=0o700, exist_ok=True)
            with open(os.open(path, NEW, 0o600), "wb") as file:
                file.write(content)


def plan_open(directory: Path, places: Sequence[Place], secret: str) -> Plan:
    """Without TLS and logins: only for nodes that are reachable only from their own machine."""
    files: dict[Path, bytes] = {}
    server_files = []
    for node_id in range(1, len(places) + 1):
        home = directory / f"node-{node_id}"
        settings = _settings(home, places, node_id)
        if len(places) > 1:
            settings["chronik.quorum.secret.file"] = str(home / SECRET_FILE)
            files[home / SECRET_FILE] = f"{secret}\n".encode()
        files[home / "server.properties"] = _server_properties(settings, node_id)
        server_files.append(home / "server.properties")
    return Plan(directory, _bootstrap(places), server_files, [], files)


def plan_secured(directory: Path, places: Sequence[Place], users: Sequence[str]) -> Plan:
    """With certificates, and SCRAM users with random passwords: `users`, an administrator, and the brokers' user."""
    authority = Authority("Chronik cluster authority", days=AUTHORITY_DAYS)
    passwords = {name: new_password() for name in (ADMIN, *users, BROKER)}
    ca_file = directory / AUTHORITY_FILE
    files = {ca_file: authority.pem.encode(), directory / AUTHORITY_KEY_FILE: authority.key_pem.encode()}
    credentials, rules = encode_first_users(first_users(passwords)), encode_first_rules(first_rules(passwords))
    server_files = []
    for node_id, place in enumerate(places, 1):
        home = directory / f"node-{node_id}"
        hosts = HOSTS if is_loopback(place.host) else (place.host,)
        settings = secured(
            _settings(home, places, node_id),
            node_count=len(places),
            key_store=str(home / "node.pem"),
            trust_store=str(home / AUTHORITY_FILE),
            broker_password=passwords[BROKER],
        )
        files |= {
            home / AUTHORITY_FILE: authority.pem.encode(),
            home / "node.pem": authority.server(node_name(node_id), hosts, days=NODE_DAYS).store_pem.encode(),
            home / "server.properties": _server_properties(settings, node_id),
            home / "data" / USERS_FILE: credentials,
            home / "data" / RULES_FILE: rules,
        }
        server_files.append(home / "server.properties")
    accesses = [Access(_bootstrap(places), name, passwords[name], str(ca_file)) for name in (ADMIN, *users)]
    plan = Plan(directory, _bootstrap(places), server_files, accesses, files)
    for access in accesses:
        files[plan.password_file(access.user)] = f"{access.password}\n".encode()
        files[plan.properties_file(access.user)] = properties_text(
            java(access), f"How {access.user} logs in: for Java's clients, Kafka's tools and chronik --command-config."
        ).encode()
    return plan


def _settings(home: Path, places: Sequence[Place], node_id: int) -> dict[str, str]:
    """Settings of one node, without TLS and logins. With a host name that is not loopback it listens everywhere."""
    place, count = places[node_id - 1], len(places)
    replicas = min(REPLICAS_MAX, count)
    in_sync = min(2, replicas)
    bound = place.address if is_loopback(place.host) else f":{place.port}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"{OPEN}://{bound}",
        "advertised.listeners": f"{OPEN}://{place.address}",
        "log.dirs": str(home / "data"),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    if count > 1:
        quorum_bound = place.quorum_address if is_loopback(place.host) else f":{place.quorum_port}"
        voters = (f"{number}@{each.quorum_address}" for number, each in enumerate(places, 1))
        settings |= {
            "listeners": f"{settings['listeners']},{QUORUM}://{quorum_bound}",
            "controller.listener.names": QUORUM,
            "controller.quorum.voters": ",".join(voters),
            "listener.security.protocol.map": f"{OPEN}:PLAINTEXT,{QUORUM}:PLAINTEXT",
        }
    return settings


def _server_properties(settings: Mapping[str, str], node_id: int) -> bytes:
    what = "with TLS, logins and access rules" if f"{LISTENER}://" in settings["listeners"] else "without security"
    return properties_text(settings, f"Node {node_id} of a cluster {what}, made by `chronik init`.").encode()


def _bootstrap(places: Sequence[Place]) -> str:
    return ",".join(place.address for place in places)
