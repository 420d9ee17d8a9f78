"""`connect`: the entry point for programs.

    async with connect("localhost:9092") as cluster: ...
    async with connect("broker:9093", properties="client.properties") as cluster: ...

It uses this machine's clock, network and random numbers. The simulator creates its clients without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from chronik.client.properties import ClientSecurity, secured_client

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

BOOTSTRAP_DEFAULT: Final = "localhost:9092"
CLIENT_ID: Final = "chronik-client"


@asynccontextmanager
async def connect(
    bootstrap: str = BOOTSTRAP_DEFAULT,
    *,
    properties: Mapping[str, str] | str | None = None,
    client_id: str = CLIENT_ID,
) -> AsyncIterator[ClusterClient]:
    """Yields a client of the cluster, for producers and consumers. Its connections close at the end of the block.

    `bootstrap` lists brokers as host:port,host:port. `properties` are the keys of Kafka's clients for TLS and logins
    (security.protocol, ssl.*, sasl.mechanism, sasl.jaas.config), or the path of a properties file with them.

    At least one broker must answer. Raises Unreachable if none does, BadAddress or BadProperties if an argument cannot
    be used, and LoginFailed or Refused if the broker rejects the login. All are ClientErrors.
    """
    from chronik.runtime.real import real_runtime

    async with secured_client(real_runtime(), bootstrap, _security(properties), client_id=client_id) as cluster:
        await cluster.to_any()
        yield cluster


def _security(properties: Mapping[str, str] | str | None) -> ClientSecurity:
    match properties:
        case None:
            return ClientSecurity()
        case str():
            return ClientSecurity.load(properties)
        case _:
            return ClientSecurity.of(properties)
