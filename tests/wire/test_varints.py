"""Zigzag varints, against literal bytes and the range of each width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire.errors import Unencodable
from chronik.wire.varints import encode_varint, read_varint, read_varlong

TABLE = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "hexed"), TABLE)
def test_a_number_has_these_bytes(value: int, hexed: str):
    """Kafka's own encoding, at each change of length."""
    data = bytes.fromhex(hexed)
    assert encode_varint(value) == data
    assert read_varlong(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))
    if -(2**31) <= value < 2**31:
        assert read_varint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_number_is_read_back(value: int):
    """Both ways, over the whole range."""
    data = encode_varint(value)
    assert read_varlong(data, 0) == (value, len(data))


@pytest.mark.parametrize(("value", "hexed"), TABLE)
def test_every_prefix_runs_out_of_bytes(value: int, hexed: str):
    """The reader never accepts a truncated number as a smaller one."""
    data = bytes.fromhex(hexed)
    for end in range(len(data)):
        with pytest.raises(IndexError):
            read_varlong(data[:end], 0)


@pytest.mark.parametrize(
    ("read", "hexed"),
    [
        (read_varint, "808080808000"),
        (read_varint, "feffffff1f"),  # 33 bits
        (read_varlong, "8080808080808080808000"),
        (read_varlong, "feffffffffffffffff03"),  # 65 bits
    ],
)
def test_a_number_too_long_or_too_large_is_refused(read, hexed: str):
    """A bound on the loop, and on the integer."""
    with pytest.raises(ValueError, match="var"):
        read(bytes.fromhex(hexed), 0)


def test_a_number_longer_than_it_need_be_is_read():
    """Java's reader takes them, so a client may have written them."""
    assert read_varint(bytes.fromhex("8080808000"), 0) == (0, 5)
    assert read_varlong(bytes.fromhex("828000"), 0) == (1, 3)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_refused(value: int):
    """Our own mistake, said as such."""
    with pytest.raises(Unencodable):
        encode_varint(value)
