"""Whose fault it was, in two branches.

WireError
├── Malformed            the peer's bytes are wrong: answer or close, never crash
│   └── MalformedMessage a request, response or stored message
└── Unencodable          ours: a value that does not fit its field
"""

from __future__ import annotations


class WireError(Exception):
    """Base of everything this package raises."""


class Malformed(WireError):
    """The peer's bytes are wrong."""


class MalformedMessage(Malformed):
    """Bytes that are not this message at this version. `offset` counts from the start of the buffer."""

    def __init__(self, message: str, version: int, field: str, offset: int, reason: str) -> None:
        super().__init__(f"{message} v{version}: {field} at byte {offset}: {reason}")
        self.message, self.version, self.field, self.offset, self.reason = message, version, field, offset, reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.version, self.field, self.offset, self.reason)


class Unencodable(WireError):
    """A message holds a value that its field cannot carry at this version."""
