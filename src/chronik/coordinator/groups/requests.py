"""The caller: what decisions need to know about a request besides its fields. The broker's handler context is one."""

from __future__ import annotations

from typing import Protocol


class Caller(Protocol):
    @property
    def version(self) -> int:
        """The request's API version."""

    @property
    def client_id(self) -> str | None: ...

    @property
    def client_host(self) -> str:
        """In Kafka's format for group descriptions: `/127.0.0.1`."""
