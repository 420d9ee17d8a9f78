"""Bytes that are almost right: valid messages with a few things changed, from one seed."""

from __future__ import annotations

from random import Random

# Lengths and counts live in these: zero, one, the borders of varint sizes and of signed numbers.
EDGES = [
    bytes.fromhex(h) for h in ("00", "01", "7f", "80", "ff", "7fff", "ffff", "8001", "7fffffff", "ffffffff", "80000000")
]
EDGES += [b"\xff" * 5, b"\xff\xff\xff\xff\x0f", b"\x80" * 6, b"\x00" * 8]


def mutate(random: Random, data: bytes, other: bytes) -> bytes:
    """One to four changes; `other` is a second valid input to splice with."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        at = random.randrange(len(out) + 1)
        match random.randrange(7):
            case 0 if out:
                out[at % len(out)] ^= 1 << random.randrange(8)
            case 1:
                edge = random.choice(EDGES)
                out[at : at + len(edge)] = edge
            case 2:
                out[at:at] = random.choice(EDGES)
            case 3:
                del out[at : at + random.choice((1, 2, 4, 8, 64))]
            case 4:
                del out[at:]
            case 5:
                cut = random.randrange(len(other) + 1)
                out[at:] = other[cut:]
            case _:
                out[at:at] = random.randbytes(random.choice((1, 2, 4, 16)))
    return bytes(out)
