"""The caller: what decisions need of a request besides its own fields. The broker's handler context is one."""

from __future__ import annotations

from typing import Protocol


class Caller(Protocol):
    @property
    def version(self) -> int:
        """Of the API, as the request was sent."""

    @property
    def client_id(self) -> str | None: ...

    @property
    def client_host(self) -> str:
        """As Kafka shows it in group descriptions: `/127.0.0.1`."""
