"""CRC-32C: the right function, and the cheap way to it."""

from __future__ import annotations

import os
import subprocess
import sys

import crc32c as package
import pytest

from chronik.wire.checksums import crc32c


@pytest.mark.parametrize(
    ("hexed", "expected"),
    [
        ("", 0x00000000),
        ("313233343536373839", 0xE3069283),  # "123456789", the check value of the polynomial
        ("00" * 32, 0x8A9136AA),  # these three are of RFC 3720, B.4
        ("ff" * 32, 0x62A8AB43),
        (bytes(range(32)).hex(), 0x46DD794E),
    ],
)
def test_known_checksums(hexed: str, expected: int):
    """Published values: a CRC of another polynomial, or without its inversions, agrees only with itself."""
    data = bytes.fromhex(hexed)
    assert crc32c(data) == expected
    assert crc32c(memoryview(bytearray(data))) == expected
    assert crc32c(data[5:], crc32c(data[:5])) == expected
    assert package.crc32c(data) == expected


def test_the_packages_own_start_up_is_not_run():
    """It is most of the time that importing our modules would take."""
    program = "import sys, chronik.wire.batches; print('argparse' in sys.modules, 'crc32c' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["False", "False"]
