"""What was done through this console since it started: the newest KEPT_MAX entries, in memory. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

KEPT_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 10_000  # of a command that may hold a record of megabytes


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    time_ms: int
    user: str | None
    address: str
    action: str
    target: str
    command: str
    outcome: str  # done, planned, refused or failed


class Activity:
    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT_MAX)
        self._next = 1

    def note(
        self,
        time_ms: int,
        user: str | None,
        address: str,
        action: str,
        outcome: str,
        target: str = "",
        command: str = "",
    ) -> None:
        target, command = target[:TEXT_CHARS_MAX], command[:TEXT_CHARS_MAX]
        self._entries.append(Entry(self._next, time_ms, user, address, action, target, command, outcome))
        self._next += 1

    def newest(self, count: int, before: int | None = None, user: str | None = None) -> list[dict[str, Any]]:
        """Of this user, if one is given."""
        found = (each for each in reversed(self._entries) if before is None or each.id < before)
        return [asdict(each) for each in islice((each for each in found if user in (None, each.user)), count)]
