"""Log lines about refused peers: for each peer and cause the first, the 10th, the 100th refusal and so on.

A peer that retries forever costs a counter, not a disk full of log lines. The number of remembered peers and causes is
bounded; the least recently used is forgotten.
"""

from __future__ import annotations

import logging
import re

REMEMBERED_MAX = 256
_value = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d+")


class Refusals:
    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._counts: dict[tuple[str, str], int] = {}  # (peer, cause): count, least recently used first
        self.count = 0

    def note(self, what: str, peer: str, reason: str) -> None:
        """Logs that `what` from `peer` is refused. Reasons that differ only in numbers and quoted text are one
        cause."""
        self.count += 1
        key = (peer, _value.sub("#", reason))
        times = self._counts.pop(key, 0) + 1
        self._counts[key] = times
        if len(self._counts) > REMEMBERED_MAX:
            del self._counts[next(iter(self._counts))]
        if str(times).strip("0") == "1":
            so_far = f" ({times} times so far)" if times > 1 else ""
            self._logger.warning("%s %s refused: %s%s", what, peer, reason, so_far)
