"""Requests of clients and their answers, with times: the evidence for the checkers.

An operation without an answer stays open: it may have happened at any time since, or never. The history judges nothing.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

from chronik.sim.world import World

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"


@dataclass(slots=True)
class Operation:
    number: int
    client: str
    node: str  # the node that got the request
    kind: str
    key: str
    value: Any
    invoked_ns: int
    returned_ns: int | None = None  # None: no answer, so it may still happen
    status: str = UNKNOWN
    result: Any = None

    @property
    def is_open(self) -> bool:
        return self.returned_ns is None

    def __str__(self) -> str:
        until = "never" if self.returned_ns is None else f"{self.returned_ns // 1000} us"
        return (
            f"#{self.number} {self.client}@{self.node} {self.kind} {self.key} {self.value!r} -> {self.status} "
            f"{_brief(self.result)} ({self.invoked_ns // 1000} us to {until})"
        )


def _brief(result: Any) -> str:
    """Replaces a long result by its size and a checksum, so that logs differ when results do."""
    if not isinstance(result, list):
        return repr(result)
    return f"{len(result)} records, checksum {zlib.crc32(repr(result).encode()):08x}"


@dataclass
class History:
    world: World
    operations: list[Operation] = field(default_factory=list)
    newest_ok: dict[tuple[str, str], int] = field(default_factory=dict)  # (kind, key): time of invocation

    def invoke(self, client: str, node: str, kind: str, key: str, value: Any = None) -> Operation:
        made = Operation(len(self.operations), client, node, kind, key, value, self.world.time.now_ns)
        self.operations.append(made)
        return made

    def complete(self, operation: Operation, status: str, result: Any = None) -> None:
        """`UNKNOWN` leaves it open: the answer does not show whether it happened."""
        operation.status, operation.result = status, result
        if status != UNKNOWN:
            operation.returned_ns = self.world.time.now_ns
        if status == OK:
            of = operation.kind, operation.key
            self.newest_ok[of] = max(operation.invoked_ns, self.newest_ok.get(of, 0))
        self.world.note(operation.client, str(operation))
