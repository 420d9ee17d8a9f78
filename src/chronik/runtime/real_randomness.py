"""Randomness of the operating system, fit for secrets. The simulator passes a seeded one instead."""

from __future__ import annotations

import os
import secrets


class RealRandomness:
    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
