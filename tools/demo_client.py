"""How the programs of the demo reach its cluster, open or secured: by a properties file, as Kafka's tools do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chronik.broker.settings.properties import parse_properties
from chronik.client.properties import ClientSecurity
from chronik.client.routing import ClusterClient
from chronik.peer.connections import no_login
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster

USER = "alice"


def properties_of(broker: Cluster, *, is_secure: bool) -> Path:
    """The file for a user that may use every topic, group and transactional id of the demo."""
    if is_secure:
        broker.allow(USER, "all", topic="*", group="*", transactional_id="*")
        return broker.properties_file(USER)
    path = broker.data / "client.properties"
    path.write_text(f"bootstrap.servers={broker.bootstrap}\n")
    return path


@asynccontextmanager
async def reached(properties: Path) -> AsyncIterator[ClusterClient]:
    keys = _read(properties)
    runtime, security = real_runtime(), ClientSecurity.of(keys)
    login = security.login(runtime)
    try:
        async with ClusterClient(
            runtime, keys["bootstrap.servers"], tls=security.tls, login=login or no_login
        ) as cluster:
            yield cluster
    finally:
        if login is not None:
            login.close()


def _read(properties: Path) -> dict[str, str]:
    return parse_properties(properties.read_text())
