"""Frames and hellos: literal bytes, fed whole and byte by byte; whatever is not ours is refused."""

from __future__ import annotations

import pytest

from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import (
    FRAME_BYTES_MAX,
    HELLO_BYTES_MAX,
    LARGE_BYTES_MAX,
    NOTE,
    SMALL_BYTES_MAX,
    FrameReader,
    Hello,
    bytes_max_of,
    frame,
)
from chronik.raft.messages import MessageKind

NONCE = bytes(range(16))
HELLO = bytes.fromhex(
    "00000028 b6e0cfc3 43525131 02 0000000000000001 0000000000000002 000102030405060708090a0b0c0d0e0f 6b2d31"
)


def test_a_hello_is_these_bytes() -> None:
    """Old and new releases of a node exchange this first: the layout cannot change without a new magic."""
    hello = Hello(1, 2, "k-1", NONCE)
    assert frame(hello.encode()).hex() == HELLO.hex()
    assert [Hello.decode(body) for body in FrameReader(HELLO_BYTES_MAX).feed(HELLO)] == [hello]


@pytest.mark.parametrize("bodies", [[b""], [b"one"], [b"one", b"", b"three" * 50]])
def test_frames_come_out_as_they_went_in(bodies: list[bytes]) -> None:
    data = b"".join(map(frame, bodies))
    assert list(FrameReader(1000).feed(data)) == bodies
    reader = FrameReader(1000)
    assert [body for byte in data for body in reader.feed(bytes([byte]))] == bodies
    reader = FrameReader(1000)
    assert list(reader.feed(data + b"\x00\x00")) == bodies
    assert list(reader.feed(frame(b"x")[2:])) == [b"x"]  # the two bytes were the start of the next one


def test_a_frame_above_the_bound_is_refused_before_it_is_read() -> None:
    """The size alone is enough: the node does not wait for 4 GiB."""
    with pytest.raises(MalformedMessage, match="4294967295 bytes"):
        list(FrameReader(HELLO_BYTES_MAX).feed(b"\xff\xff\xff\xff\x00\x00\x00\x00"))


@pytest.mark.parametrize("first_bytes", [0, 3, 10])
def test_an_altered_frame_is_refused(first_bytes: int) -> None:
    """Whether it arrives whole or in two pieces: the reader cuts these two ways."""
    data = bytearray(frame(b"payload"))
    data[-1] ^= 1
    reader = FrameReader(1000)
    assert list(reader.feed(bytes(data[:first_bytes]))) == []
    with pytest.raises(MalformedMessage, match="checksum"):
        list(reader.feed(bytes(data[first_bytes:])))


@pytest.mark.parametrize("size", range(len(Hello(1, 2, "k").encode()) - 1))
def test_every_prefix_of_a_hello_is_refused(size: int) -> None:
    with pytest.raises(MalformedMessage):
        Hello.decode(Hello(1, 2, "").encode()[: size - 1])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Hello(2, 1, "other"), "belongs to cluster 'other'"),
        (Hello(2, 3, "k"), "looks for node 3"),
        (Hello(0, 1, "k"), "says it is node 0"),
        (Hello(-1, 1, "k"), "says it is node -1"),
        (Hello(1, 1, "k"), "says it is node 1"),
        (Hello(3, 1, "k"), "says it is node 3"),
    ],
)
def test_a_hello_of_somebody_else_is_refused(said: Hello, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why):
        said.check_answer_to(Hello(1, 2, "k"))
    Hello(2, 1, "k").check_answer_to(Hello(1, 2, "k"))


def test_node_0_is_a_node_like_any_other() -> None:
    """Most examples of Kafka's configuration count nodes from 0."""
    Hello(0, 1, "k").check_answer_to(Hello(1, 0, "k"))
    Hello(1, 0, "k").check_answer_to(Hello(0, 1, "k"))
    with pytest.raises(MalformedMessage, match="says it is node 3"):
        Hello(3, 1, "k").check_answer_to(Hello(1, 0, "k"))


@pytest.mark.parametrize(
    ("kind", "bytes_max"),
    [
        (b"\x01" + bytes([MessageKind.SNAPSHOT]), FRAME_BYTES_MAX),
        (b"\x01" + bytes([MessageKind.APPEND]), LARGE_BYTES_MAX),
        (NOTE + b"\x01", LARGE_BYTES_MAX),
        (b"\x01" + bytes([MessageKind.VOTE]), SMALL_BYTES_MAX),
        (b"\xff\xff", SMALL_BYTES_MAX),
    ],
)
def test_a_frame_is_as_large_as_its_kind_may_be(kind: bytes, bytes_max: int) -> None:
    """Memory is for what needs it: a vote of a hundred megabytes is refused when its first bytes have come."""
    head = bytes(4) + kind
    reader = FrameReader(FRAME_BYTES_MAX, bytes_max_of)
    assert list(reader.feed(bytes_max.to_bytes(4, "big") + head)) == []
    reader = FrameReader(FRAME_BYTES_MAX, bytes_max_of)
    with pytest.raises(MalformedMessage, match=f"{bytes_max} are allowed"):
        list(reader.feed((bytes_max + 1).to_bytes(4, "big") + head))
