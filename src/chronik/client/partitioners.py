"""Chooses the partition of a record, like Kafka's own producer: by key if it has one, else by batch.

Equal keys go to the same partition whatever client wrote them, so `murmur2` must equal Java's, bit for bit. Records
without a key use one partition until its batch is sent, which gives few large batches instead of many small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Randomness

SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of Kafka's clients, as an unsigned number."""
    length = len(data)
    value = SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * MULTIPLIER & _MASK
        word = (word ^ word >> SHIFT) * MULTIPLIER & _MASK
        value = (value * MULTIPLIER & _MASK) ^ word
    if rest := data[whole:]:
        value = ((value ^ int.from_bytes(rest, "little")) * MULTIPLIER) & _MASK
    value = (value ^ value >> 13) * MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition for a key. It changes when a topic gets more partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class Sticky:
    """The partition for a topic's records without a key, until `move`."""

    __slots__ = ("_randomness", "partition")

    def __init__(self, randomness: Randomness, choices: Sequence[int]) -> None:
        self._randomness = randomness
        self.partition = choices[randomness.below(len(choices))]

    def move(self, choices: Sequence[int]) -> int:
        """Chooses another writable partition, if there is one."""
        others = [each for each in choices if each != self.partition] or list(choices)
        self.partition = others[self._randomness.below(len(others))]
        return self.partition
