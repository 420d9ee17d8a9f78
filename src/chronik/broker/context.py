"""What every handler gets besides its request: who asks, in which version, what they may do, and what the node has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.broker.connection import Connection
    from chronik.broker.permissions import Operation, Resource
    from chronik.broker.services import Services
    from chronik.broker.session import Principal, Session


class Context:
    """`connection` is for handlers that hold back what comes behind their request, or hear when the client leaves."""

    __slots__ = ("client_id", "connection", "services", "version")

    def __init__(self, services: Services, connection: Connection, version: int, client_id: str | None) -> None:
        self.services = services
        self.connection = connection
        self.version = version
        self.client_id = client_id

    @property
    def session(self) -> Session:
        return self.connection.session

    @property
    def principal(self) -> Principal:
        return self.connection.session.principal

    @property
    def client_host(self) -> str:
        """As Kafka shows it in group descriptions: `/127.0.0.1`."""
        return f"/{self.connection.session.host}"

    def allows(self, operation: Operation, kind: Resource, name: str) -> bool:
        """Whether the caller may do this to the resource of this kind and name."""
        return self.services.authorizer.allows(self.connection.session, operation, kind, name)

    @property
    def throttle_ms(self) -> int:
        """How long the caller is asked to wait before its next request."""
        return 0
