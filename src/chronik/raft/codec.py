"""Encodes entries, snapshots and messages, for the journal and for the wire between nodes.

Big-endian; fixed fields first; counts are checked before anything is allocated. Indices of an append's entries follow
from the message's own index, so a peer cannot send a log with holes. Invalid bytes raise MalformedMessage and nothing
else. The first byte of a message is the format: increase it when the meaning of a field changes.
"""

from __future__ import annotations

import struct

from chronik.raft.errors import MalformedMessage
from chronik.raft.messages import Entry, EntryKind, Membership, Message, MessageKind, Snapshot

MESSAGE_FORMAT = 1
NUMBER_MAX = 1 << 62  # leaves room to increase a term or index
_REJECT, _SNAPSHOT = 1, 2  # bits of the flags

# format, kind, flags, to, sender, term, log_term, index, commit, hint, context size, entry count
_MESSAGE = struct.Struct(">BBBqqQQQQQHI")
_ENTRY = struct.Struct(">QBI")  # term, kind, data size
_SNAPSHOT_HEAD = struct.Struct(">QQHHI")  # index, term, voter count, learner count, data size
_ID = struct.Struct(">q")


def encode_message(message: Message) -> bytes:
    flags = (_REJECT if message.reject else 0) | (_SNAPSHOT if message.snapshot else 0)
    parts = [
        _MESSAGE.pack(
            MESSAGE_FORMAT,
            message.kind,
            flags,
            message.to,
            message.sender,
            message.term,
            message.log_term,
            message.index,
            message.commit,
            message.hint,
            len(message.context),
            len(message.entries),
        ),
        message.context,
    ]
    for entry in message.entries:
        parts += (_ENTRY.pack(entry.term, entry.kind, len(entry.data)), entry.data)
    if message.snapshot:
        parts.append(encode_snapshot(message.snapshot))
    return b"".join(parts)


def decode_message(data: bytes | memoryview) -> Message:
    view = memoryview(data)
    try:
        version, kind, flags, to, sender, term, log_term, index, commit, hint, context_bytes, count = (
            _MESSAGE.unpack_from(view)
        )
        if version != MESSAGE_FORMAT:
            raise MalformedMessage(
                f"message of format {version}, this node speaks {MESSAGE_FORMAT}: upgrade the older one"
            )
        if max(to, sender, term, log_term, index, commit, hint) >= NUMBER_MAX:
            raise MalformedMessage("a number that no cluster reaches")
        at = _MESSAGE.size
        context = _take(view, at, context_bytes)
        at += context_bytes
        if count > (len(view) - at) // _ENTRY.size:
            raise MalformedMessage(f"{count} entries cannot be in {len(view) - at} bytes")
        # A forwarded proposal has no log position yet: its entries carry index 0.
        first_index, step = (0, 0) if kind == MessageKind.PROPOSE else (index + 1, 1)
        entries = []
        for position in range(count):
            entry_term, entry_kind, size_bytes = _ENTRY.unpack_from(view, at)
            at += _ENTRY.size
            entries.append(
                Entry(entry_term, first_index + step * position, EntryKind(entry_kind), _take(view, at, size_bytes))
            )
            at += size_bytes
        snapshot = None
        if flags & _SNAPSHOT:
            snapshot, at = decode_snapshot(view, at)
        if at != len(view) or flags & ~(_REJECT | _SNAPSHOT):
            raise MalformedMessage(f"{len(view) - at} bytes left over, flags {flags:#x}")
        reject = bool(flags & _REJECT)
        return Message(
            MessageKind(kind),
            to,
            sender,
            term,
            log_term,
            index,
            tuple(entries),
            commit,
            snapshot,
            reject,
            hint,
            context,
        )
    except (struct.error, ValueError) as error:
        raise MalformedMessage(f"{len(view)} bytes are not a message: {error}") from error


def encode_snapshot(snapshot: Snapshot) -> bytes:
    voters, learners = snapshot.membership
    head = _SNAPSHOT_HEAD.pack(snapshot.index, snapshot.term, len(voters), len(learners), len(snapshot.data))
    return head + b"".join(map(_ID.pack, (*voters, *learners))) + snapshot.data


def decode_snapshot(view: memoryview, at: int) -> tuple[Snapshot, int]:
    index, term, voter_count, learner_count, data_bytes = _SNAPSHOT_HEAD.unpack_from(view, at)
    at += _SNAPSHOT_HEAD.size
    packed = _take(view, at, (voter_count + learner_count) * _ID.size)
    ids = [node_id for (node_id,) in _ID.iter_unpack(packed)]
    at += len(packed)
    members = Membership(tuple(ids[:voter_count]), tuple(ids[voter_count:]))
    return Snapshot(index, term, members, _take(view, at, data_bytes)), at + data_bytes


def _take(view: memoryview, at: int, size_bytes: int) -> bytes:
    if size_bytes > len(view) - at:
        raise MalformedMessage(f"{size_bytes} bytes announced, {len(view) - at} received")
    return bytes(view[at : at + size_bytes])
