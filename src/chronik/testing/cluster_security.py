"""The users, certificates and rules of a `Cluster(secure=True)`, and the settings of its clients.

All files are in one directory beside the data of the nodes, readable only by their owner. A cluster reopened on the
same data keeps its authority and its users. Changes are made through the cluster's own listener, as `admin`, and are in
effect on every running node when the method returns.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

from chronik.broker.first_rules import write_first_rules
from chronik.broker.first_users import write_first_users
from chronik.client.admin import acls, users
from chronik.client.errors import ClientError
from chronik.client.properties import ClientSecurity
from chronik.client.routing import ClusterClient
from chronik.metadata.access import ALLOW, CLUSTER, CLUSTER_RESOURCE, DENY, LITERAL, PREFIXED, AccessRule, RuleFilter
from chronik.runtime.real import real_runtime
from chronik.security.client_settings import Access, java, properties_text, settings_of
from chronik.security.words import OPERATIONS
from chronik.testing.certificates import HOSTS, Authority
from chronik.testing.local_cluster import node_directory
from chronik.testing.secured import (
    ADMIN,
    BROKER,
    GROUP,
    MECHANISM,
    TOPIC,
    TRANSACTIONAL_ID,
    first_rules,
    first_users,
    new_password,
    node_name,
    secured,
)
from chronik.wire.scram import ITERATIONS_MIN, KINDS

T = TypeVar("T")

DIRECTORY: Final = "security"
USER: Final = "alice"  # the ordinary user of a new cluster
LOOK_SECONDS: Final = 0.01
_numbers: Final = {name.lower().replace("_", "-"): number for number, name in OPERATIONS.items() if name != "ANY"}


class ClusterSecurity:
    def __init__(self, data: Path, settings: Sequence[Mapping[str, str]]) -> None:
        """Creates the files, or loads existing ones. `settings` are those of the nodes without security."""
        self._directory = data / DIRECTORY
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ca_file = self._directory / "ca.pem"
        key_file, passwords_file = self._directory / "ca.key", self._directory / "passwords.json"
        is_new = not passwords_file.exists()
        if is_new:
            authority = Authority("Chronik test cluster")
            self.ca_file.write_text(authority.pem)
            _write(key_file, authority.key_pem)
            self.passwords = {name: new_password() for name in (ADMIN, BROKER, USER)}
            self._keep()
        else:
            authority = Authority.load(self.ca_file.read_text(), key_file.read_text())
            self.passwords = json.loads(passwords_file.read_text())
        self.settings = [self._node(data, node_id, each, authority) for node_id, each in enumerate(settings, 1)]
        for each in self.settings * is_new:
            disk = real_runtime().disk
            write_first_users(disk, each["log.dirs"], first_users(self.passwords))
            write_first_rules(disk, each["log.dirs"], first_rules(self.passwords))

    def _node(self, data: Path, node_id: int, settings: Mapping[str, str], authority: Authority) -> dict[str, str]:
        key_store = self._directory / f"{node_name(node_id)}.pem"
        _write(key_store, authority.server(node_name(node_id), HOSTS).store_pem)
        made = secured(
            settings,
            node_count=int(settings.get("controller.quorum.voters", "").count("@")),
            key_store=str(key_store),
            trust_store=str(self.ca_file),
            broker_password=self.passwords[BROKER],
        )
        return {**made, "log.dirs": str(node_directory(data, node_id))}

    def access(self, user: str, bootstrap: str) -> Access:
        if user not in self.passwords:
            known = ", ".join(sorted(self.passwords))
            raise ValueError(f"the cluster has no user {user!r}, only {known}: add it with add_user")
        return Access(bootstrap, user, self.passwords[user], str(self.ca_file), MECHANISM)

    def client_settings(self, user: str, library: str, bootstrap: str) -> dict[str, Any]:
        return settings_of(library, self.access(user, bootstrap))

    def properties_file(self, user: str, bootstrap: str) -> Path:
        path = self._directory / f"{user}.properties"
        _write(path, properties_text(java(self.access(user, bootstrap))))
        return path

    def add_user(self, name: str, password: str | None, addresses: Sequence[str]) -> str:
        chosen = password or new_password()

        async def put(cluster: ClusterClient) -> None:
            salted = users.salt_password(cluster.randomness, KINDS[MECHANISM], chosen, ITERATIONS_MIN)
            await users.put(cluster, name, salted)

        async def is_known(address: str) -> bool:
            try:
                await self._as(name, address, ClusterClient.to_any)
            except ClientError:
                return False
            return True

        self.passwords[name], before = chosen, self.passwords.get(name)
        try:
            self._change(put, is_known, addresses)
        except BaseException:
            if before is None:
                del self.passwords[name]
            else:
                self.passwords[name] = before
            raise
        self._keep()
        return chosen

    def add_rules(self, rules: Sequence[AccessRule], addresses: Sequence[str]) -> None:
        async def create(cluster: ClusterClient) -> None:
            await acls.create(cluster, list(rules))

        async def are_known(address: str) -> bool:
            found = await self._as(ADMIN, address, lambda cluster: acls.describe(cluster, RuleFilter()))
            return set(rules) <= set(found)

        self._change(create, are_known, addresses)

    def _change(
        self,
        change: Callable[[ClusterClient], Awaitable[None]],
        is_known: Callable[[str], Awaitable[bool]],
        addresses: Sequence[str],
    ) -> None:
        """Makes a change at the first node, and waits until it is in effect on every node."""

        async def everywhere() -> None:
            await self._as(ADMIN, addresses[0], change)
            for address in addresses:
                while not await is_known(address):  # noqa: ASYNC110 - a node may be another process: no event reaches us
                    await asyncio.sleep(LOOK_SECONDS)

        with ThreadPoolExecutor(1) as pool:  # the caller's thread may already run an event loop
            pool.submit(uvloop.run, everywhere()).result()

    async def _as(self, user: str, address: str, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
        runtime = real_runtime()
        security = ClientSecurity.of(java(self.access(user, address)))
        login = security.login(runtime)
        assert login is not None
        try:
            async with ClusterClient(runtime, address, tls=security.tls, login=login) as cluster:
                return await work(cluster)
        finally:
            login.close()

    def _keep(self) -> None:
        _write(self._directory / "passwords.json", json.dumps(self.passwords, indent=1))


def rules_for(
    user: str,
    operations: Sequence[str],
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    on_cluster: bool = False,
    prefix: bool = False,
    host: str = "*",
    is_denied: bool = False,
) -> list[AccessRule]:
    """One rule for each operation and resource. Raises ValueError for an operation that does not exist."""
    unknown = [each for each in operations if each.lower().replace("_", "-") not in _numbers]
    if unknown or not operations:
        raise ValueError(f"operation {', '.join(unknown)!r} does not exist: name one or more of {', '.join(_numbers)}")
    named = [(TOPIC, topic), (GROUP, group), (TRANSACTIONAL_ID, transactional_id)]
    resources = [(kind, name, PREFIXED if prefix else LITERAL) for kind, name in named if name is not None]
    resources += [(CLUSTER, CLUSTER_RESOURCE, LITERAL)] * on_cluster
    if not resources:
        raise ValueError("name a topic, a group or a transactional_id, or say on_cluster=True")
    return [
        AccessRule(
            kind,
            name,
            pattern,
            user if ":" in user else f"User:{user}",
            host,
            _numbers[operation.lower().replace("_", "-")],
            DENY if is_denied else ALLOW,
        )
        for kind, name, pattern in resources
        for operation in operations
    ]


def _write(path: Path, text: str) -> None:
    """A file that only its owner can read, from the moment of creation."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
