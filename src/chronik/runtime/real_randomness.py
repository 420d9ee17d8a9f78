"""The operating system's random numbers, suitable for secrets. The simulator uses a seeded generator instead."""

from __future__ import annotations

import os
import secrets


class RealRandomness:
    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
