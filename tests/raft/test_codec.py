"""Messages as bytes: literal layouts, round trips, and invalid bytes that raise only MalformedMessage."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.raft.changes import Action, Change, ChangeSet
from chronik.raft.codec import decode_message, encode_message
from chronik.raft.errors import MalformedMessage
from chronik.raft.messages import Entry, EntryKind, Membership, Message, MessageKind, Snapshot

CASES = [
    (
        Message(MessageKind.HEARTBEAT, 2, 1, 5, commit=9, context=b"r"),
        (
            "01 09 00 0000000000000002 0000000000000001 0000000000000005 0000000000000000 0000000000000000"
            " 0000000000000009 0000000000000000 0001 00000000 72"
        ),
    ),
    (
        Message(
            MessageKind.APPEND, 2, 1, 5, 4, 7, (Entry(5, 8, EntryKind.NORMAL, b"ab"), Entry(5, 9, EntryKind.CHANGE)), 6
        ),
        (
            "01 02 00 0000000000000002 0000000000000001 0000000000000005 0000000000000004 0000000000000007"
            " 0000000000000006 0000000000000000 0000 00000002"
            " 0000000000000005 00 00000002 6162 0000000000000005 01 00000000"
        ),
    ),
    (
        Message(MessageKind.SNAPSHOT, 2, 1, 5, snapshot=Snapshot(7, 4, Membership((1, 2), (3,)), b"image")),
        (
            "01 08 02 0000000000000002 0000000000000001 0000000000000005 0000000000000000 0000000000000000"
            " 0000000000000000 0000000000000000 0000 00000000 0000000000000007 0000000000000004 0002 0001 00000005"
            " 0000000000000001 0000000000000002 0000000000000003 696d616765"
        ),
    ),
    (
        Message(MessageKind.APPEND_REPLY, 1, 2, 5, 3, 7, reject=True, hint=4),
        (
            "01 03 01 0000000000000001 0000000000000002 0000000000000005 0000000000000003 0000000000000007"
            " 0000000000000000 0000000000000004 0000 00000000"
        ),
    ),
]


@pytest.mark.parametrize(("message", "layout"), CASES, ids=lambda value: getattr(value, "kind", ""))
def test_a_message_is_these_bytes(message: Message, layout: str) -> None:
    assert encode_message(message) == bytes.fromhex(layout)
    assert decode_message(bytes.fromhex(layout)) == message


numbers = st.integers(0, 2**62 - 1)
ids = st.integers(1, 2**62 - 1)
entries = st.lists(st.tuples(numbers, st.sampled_from(EntryKind), st.binary(max_size=40)), max_size=5)
snapshots = st.builds(
    Snapshot,
    numbers,
    numbers,
    st.builds(Membership, st.lists(ids, max_size=4).map(tuple), st.lists(ids, max_size=3).map(tuple)),
    st.binary(max_size=100),
)


@given(
    kind=st.sampled_from(MessageKind), to=ids, sender=ids, term=numbers, log_term=numbers, index=st.integers(0, 2**60),
    content=entries, commit=numbers, snapshot=st.none() | snapshots, reject=st.booleans(), hint=numbers,
    context=st.binary(max_size=30),
)  # fmt: skip
def test_every_message_survives_the_way(content: list[tuple[int, EntryKind, bytes]], **fields: object) -> None:
    first = 0 if fields["kind"] is MessageKind.PROPOSE else fields["index"] + 1
    step = 0 if fields["kind"] is MessageKind.PROPOSE else 1
    message = Message(
        entries=tuple(Entry(term, first + step * at, kind, data) for at, (term, kind, data) in enumerate(content)),
        **fields,
    )
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(("message", "layout"), CASES, ids=lambda value: getattr(value, "kind", ""))
def test_every_prefix_and_every_surplus_is_refused(message: Message, layout: str) -> None:
    data = bytes.fromhex(layout)
    for size in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode_message(data[:size])
    with pytest.raises(MalformedMessage):
        decode_message(data + b"\x00")


def test_altered_bytes_are_a_message_or_malformed_and_nothing_else() -> None:
    """A peer's program may be broken in any way: no other exception may reach the connection."""
    random = Random(3)
    for _ in range(30_000):
        data = bytearray(encode_message(random.choice(CASES)[0]))
        for _ in range(random.randint(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            decode_message(bytes(data))
        except MalformedMessage:
            continue


def test_a_count_is_checked_before_anything_is_made() -> None:
    data = bytearray(encode_message(Message(MessageKind.APPEND, 2, 1, 5)))
    data[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(MalformedMessage, match="4294967295 entries"):
        decode_message(bytes(data))


def test_a_number_that_could_not_be_counted_on_is_refused() -> None:
    """Taken over as the term, the highest number would leave no term for the next election."""
    with pytest.raises(MalformedMessage, match="no cluster reaches"):
        decode_message(encode_message(Message(MessageKind.HEARTBEAT, 2, 1, 2**64 - 1)))


def test_a_membership_change_is_these_bytes() -> None:
    """Logs of any age contain it."""
    changes = ChangeSet((Change(Action.ADD_VOTER, 4), Change(Action.REMOVE, 2)), b"ctx")
    layout = bytes.fromhex("01 0002 01 0000000000000004 03 0000000000000002") + b"ctx"
    assert changes.encode() == layout
    assert ChangeSet.of(Entry(1, 1, EntryKind.CHANGES, layout)) == changes
    for size in range(len(layout) - 3):
        with pytest.raises(MalformedMessage):
            ChangeSet.of(Entry(1, 1, EntryKind.CHANGES, layout[:size]))
