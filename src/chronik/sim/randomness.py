"""Seeded random numbers. Each part of a world has its own stream, named by its purpose, so that removing a fault from a
schedule changes as little as possible of everything else."""

from __future__ import annotations

import zlib
from random import Random


def stream(seed: int, purpose: str) -> Random:
    return Random(seed << 32 | zlib.crc32(purpose.encode()))


class SimRandomness:
    """A node's Randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
