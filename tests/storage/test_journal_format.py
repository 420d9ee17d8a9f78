"""The journal's bytes: literal frames, every prefix, every flipped bit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.storage.journal_format import RecordKind, declaration, frame, identity, read_frames, record_header

TOPIC_ID = bytes(range(16))
DECLARED = (
    "43484a31 e5ba8f54 0000003b 0000000000000000"  # magic, crc, body_bytes, synced_bytes
    " 01 00000007 0000000000000000 0000000000000000 0000000000000000 0000001a"  # DECLARE, handle 7
    " 000102030405060708090a0b0c0d0e0f 00000003 6f7264657273"  # topic id, partition 3, "orders"
)


def whole(parts: list[bytes], position: int = 0, synced_bytes: int = 0) -> bytes:
    return b"".join(frame(parts, position, synced_bytes))


def test_a_frame_has_these_bytes() -> None:
    """Journals are read by later versions: the layout may not change by accident."""
    made = whole([declaration(7, TOPIC_ID, 3, "orders")])
    assert made.hex() == DECLARED.replace(" ", "")
    (only,), torn = read_frames(memoryview(made))
    assert torn == (len(made), False)
    assert identity(only.records[0].data) == ("orders", TOPIC_ID, 3)


records = st.lists(
    st.tuples(
        st.sampled_from([RecordKind.BYTES, RecordKind.MARK, RecordKind.TRUNCATE, RecordKind.START, RecordKind.ROLL]),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        st.binary(max_size=50),
    ),
    max_size=5,
)


def encoded(rows: list[tuple[int, int, int, int, int, bytes]]) -> list[bytes]:
    return [record_header(*row[:5], len(row[5])) + row[5] for row in rows]


@given(st.lists(records, max_size=4))
def test_what_is_written_is_read(rounds: list[list[tuple[int, int, int, int, int, bytes]]]) -> None:
    data = b""
    for rows in rounds:
        data += whole(encoded(rows), len(data))
    frames, torn = read_frames(memoryview(data))
    assert [[(*record[:5], bytes(record.data)) for record in each.records] for each in frames] == rounds
    assert torn == (len(data), False)


def test_a_frame_is_whole_or_void_at_every_cut() -> None:
    """A round whose frame is not whole was never acknowledged, and none of it may be taken."""
    first = whole(encoded([(RecordKind.BYTES, 1, 0, 0, 3, b"abc")]))
    second = whole(
        encoded([(RecordKind.BYTES, 1, 0, 3, 6, b"def"), (RecordKind.MARK, 2, 0, 3, 6, b"")]), len(first), len(first)
    )
    for size in range(len(first), len(first) + len(second)):
        frames, torn = read_frames(memoryview((first + second)[:size]))
        assert len(frames) == 1
        assert torn == (len(first), False)


def test_every_flipped_bit_is_noticed_and_damage_is_told_from_a_torn_tail() -> None:
    """Frame 2 was written when frame 1 was known to be synced: frame 1 can only be damaged, frame 2 may be torn."""
    first = whole(encoded([(RecordKind.BYTES, 1, 0, 0, 3, b"abc")]))
    second = whole(encoded([(RecordKind.BYTES, 1, 0, 3, 6, b"def")]), len(first), len(first))
    for bit in range(len(first + second) * 8):
        data = bytearray(first + second)
        data[bit // 8] ^= 1 << bit % 8
        frames, torn = read_frames(memoryview(data))
        in_first = bit // 8 < len(first)
        assert len(frames) == (0 if in_first else 1)
        assert torn == (0 if in_first else len(first), in_first)


def test_a_copy_of_a_journal_sent_as_a_record_proves_nothing() -> None:
    """Backups of data directories are sent through brokers. A frame at another position than where it was written is
    invalid: it is not read, and it does not prove that torn bytes around it were synced."""
    first = whole(encoded([(RecordKind.BYTES, 1, 0, 0, 3, b"abc")]))
    copied = whole(encoded([(RecordKind.BYTES, 9, 0, 0, 3, b"xyz")]), len(first), synced_bytes=2**40)
    second = whole(encoded([(RecordKind.BYTES, 1, 0, 3, 6, copied + b"tail")]), len(first), len(first))
    for end in range(len(first) + 1, len(first) + len(second)):
        frames, torn = read_frames(memoryview((first + second)[:end]))
        assert len(frames) == 1
        assert torn == (len(first), False)
    assert read_frames(memoryview(copied))[0] == []
