"""Frames come out whole and in order, however the bytes arrive; nothing is allocated on a stranger's word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire.framing import SCRATCH_BYTES, BadFrame, FrameReader, make_scratch

LARGE = bytes(range(256)) * ((SCRATCH_BYTES // 256) + 7)  # longer than the scratch buffer
CASES = [
    ("nothing", "", []),
    ("one empty frame", "00000000", [b""]),
    ("one frame", "00000003 616263", [b"abc"]),
    ("two frames at once", "00000001 61 00000002 6263", [b"a", b"bc"]),
]


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def assert_frames(data: bytes, expected: list[bytes]) -> None:
    assert [bytes(f) for f in FrameReader(1 << 20).feed(data)] == expected, "whole"
    reader = FrameReader(1 << 20)
    assert [bytes(f) for byte in data for f in reader.feed(bytes([byte]))] == expected, "byte by byte"
    reader = FrameReader(1 << 20)
    assert [bytes(f) for f in reader.feed(data + b"\x00\x00")] == expected, "with trailing data"
    assert reader.has_part_of_a_frame, "the trailing data is kept for the next frame"


@pytest.mark.parametrize(("name", "data", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_stream_is_cut_into_its_frames(name: str, data: str, expected: list[bytes]) -> None:
    assert_frames(bytes.fromhex(data), expected)


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_frames_do_not_depend_on_how_the_bytes_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    data, reader, got, at, turn = b"".join(map(frame, bodies)), FrameReader(1 << 20), [], 0, 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        got += [bytes(f) for f in reader.feed(data[at : at + step])]
        at, turn = at + step, turn + 1
        assert reader.has_part_of_a_frame == (sum(len(frame(f)) for f in got) < min(at, len(data)))
    assert got == bodies


def test_a_frame_larger_than_the_scratch_buffer_arrives_whole() -> None:
    """It is received directly into its own memory; the next frame must not be lost."""
    reader = FrameReader(1 << 20)
    got = reader.feed(frame(b"before") + frame(LARGE) + frame(b"behind"))
    assert [bytes(f) for f in got] == [b"before", LARGE, b"behind"]


def test_readers_of_two_threads_do_not_share_their_scratch() -> None:
    """A client and a broker in one process run on two loops: one requests room before the other has used its own."""
    one, other = FrameReader(1 << 20), FrameReader(1 << 20)
    room, other_room = one.room(), other.room()
    room[: len(frame(b"one"))] = frame(b"one")
    other_room[: len(frame(b"other"))] = frame(b"other")
    assert [bytes(each) for each in one.received(len(frame(b"one")))] == [b"one"]
    assert [bytes(each) for each in other.received(len(frame(b"other")))] == [b"other"]


def test_readers_share_no_bytes_although_they_share_a_buffer() -> None:
    """Half a frame on one connection must survive traffic on another."""
    scratch = make_scratch()
    one, other = FrameReader(1 << 20, scratch=scratch), FrameReader(1 << 20, scratch=scratch)
    assert one.feed(b"\x00\x00") == []
    assert [bytes(f) for f in other.feed(frame(b"other"))] == [b"other"]
    assert [bytes(f) for f in one.feed(b"\x00\x03one")] == [b"one"]


def test_a_frame_can_be_written_to_and_keeps_its_bytes() -> None:
    """A produce request is patched in place, after the reader has gone on to other data."""
    reader = FrameReader(1 << 20)
    (first,) = reader.feed(frame(b"abc"))
    reader.feed(frame(b"xyz"))
    first[0:1] = b"A"
    assert bytes(first) == b"Abc"


@pytest.mark.parametrize("size", ["ffffffff", "80000000", "00000401", "48545450"])
def test_a_size_out_of_bounds_is_refused_before_anything_is_allocated(size: str) -> None:
    """Negative, one over the limit, and `HTTP`, which a browser sends to a wrong port."""
    with pytest.raises(BadFrame, match="at most 1024"):
        FrameReader(1024).feed(bytes.fromhex(size))


@pytest.mark.parametrize("before", [b"", bytes.fromhex("00000001 61")], ids=["alone", "behind another"])
def test_a_frame_over_the_limit_is_refused_also_when_all_of_it_has_arrived(before: bytes) -> None:
    whole = (1024).to_bytes(4) + bytes(1024)
    assert FrameReader(1024).feed(whole) == [bytes(1024)]
    with pytest.raises(BadFrame, match="at most 1023"):
        FrameReader(1023).feed(before + whole)


def test_without_a_budget_a_large_frame_is_received_into_all_of_its_memory() -> None:
    """A follower's link has no budget to ask: its fetch responses should take few reads."""
    reader = FrameReader(4 << 20)
    data = frame(bytes(3 << 20))
    assert reader.feed(data[:100]) == []
    assert len(reader.room()) == len(data) - 100


def test_a_large_frame_waits_until_it_is_admitted() -> None:
    """The budget is asked before memory is taken, and nothing that arrived meanwhile is lost."""
    is_open = False
    reader = FrameReader(1 << 20, lambda size_bytes: is_open)
    data = frame(b"small") + frame(LARGE)
    head = reader.feed(data[:100])
    assert [bytes(f) for f in head] == [b"small"]
    assert reader.waiting_bytes == len(LARGE)
    assert reader.go_on() == [], "still no room"
    assert reader.waiting_bytes == len(LARGE)
    is_open = True
    assert reader.go_on() == []
    assert reader.waiting_bytes == 0
    assert [bytes(f) for f in reader.feed(data[100:])] == [LARGE]
