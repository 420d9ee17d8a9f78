"""What every handler gets besides its request: the caller, the version, the caller's permissions, and the node's
services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from chronik.broker.authorizer import Notes
from chronik.broker.permissions import CLUSTER_NAME, Operation, Resource, bits

if TYPE_CHECKING:
    from chronik.broker.connection import ServerConnection
    from chronik.broker.services import Services
    from chronik.broker.session import Principal, Session


NO_NAMES: frozenset[str] = frozenset()


class Context:
    """`connection` is for handlers that hold back later requests of a connection, or that notice when the client
    disconnects."""

    __slots__ = ("api", "client_id", "connection", "services", "throttle_ms", "version")

    def __init__(
        self, services: Services, connection: ServerConnection, version: int, client_id: str | None, api: str = "?"
    ) -> None:
        self.services = services
        self.connection = connection
        self.version = version
        self.client_id = client_id
        self.throttle_ms = 0  # how long the caller must wait after this request, as set by its handler
        self.api = api  # the API's name

    @property
    def session(self) -> Session:
        return self.connection.session

    @property
    def principal(self) -> Principal:
        return self.connection.session.principal

    @property
    def client_host(self) -> str:
        """In Kafka's format for group descriptions: `/127.0.0.1`."""
        return f"/{self.connection.session.host}"

    def allows(self, operation: Operation, kind: Resource, name: str, notes: Notes = Notes.ALL) -> bool:
        """Whether the caller may do this to the resource of this kind and name. `notes` is for the audit."""
        authorizer = self.services.authorizer
        if not authorizer.restricts:
            return True
        return authorizer.allows(self.connection.session, operation, kind, name, self.api, notes)

    def allows_on_cluster(self, operation: Operation, notes: Notes = Notes.ALL) -> bool:
        return self.allows(operation, Resource.CLUSTER, CLUSTER_NAME, notes)

    async def allows_any(self, operation: Operation, kind: Resource) -> bool:
        """Whether the caller may do this to any resource of this kind."""
        authorizer = self.services.authorizer
        if not authorizer.restricts:
            return True
        session = self.connection.session
        return await self.services.turns.run(authorizer.allows_any(session, operation, kind, self.api))

    def denied(
        self, operation: Operation, kind: Resource, names: Iterable[str], notes: Notes = Notes.ALL
    ) -> frozenset[str]:
        """The names for which the caller lacks this permission."""
        if not self.services.authorizer.restricts:
            return NO_NAMES
        return frozenset(name for name in dict.fromkeys(names) if not self.allows(operation, kind, name, notes))

    def permitted(self, operations: int, kind: Resource, name: str) -> int:
        """The operations among these that the caller may do to the resource, as bits (see `permissions.bits`)."""
        if not self.services.authorizer.restricts:
            return operations
        asked = (each for each in Operation if operations >> each & 1)
        return bits(*(each for each in asked if self.allows(each, kind, name, Notes.NONE)))
