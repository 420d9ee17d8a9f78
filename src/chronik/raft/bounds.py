"""Limits on what a peer's message may claim. Pure: a message and this node's position in, a reason to refuse out.

Terms and indexes increase by one, so a number far ahead of this node's is not real. If accepted, it would be permanent:
a term near the end of its range leaves no room for the next election.
"""

from __future__ import annotations

from chronik.raft.addresses import decode_image
from chronik.raft.changes import ChangeSet
from chronik.raft.errors import MalformedMessage
from chronik.raft.messages import NOBODY, Entry, EntryKind, Message, MessageKind, Snapshot

# One election takes an election timeout, 0.75 s by default: a node that was away for a hundred years may come back. A
# malicious peer that repeats this needs 2**30 elections to use up the terms that a message can carry.
TERM_RISE_MAX = 1 << 32
INDEX_RISE_MAX = 1 << 48  # a million entries a second for eight years
MEMBERS_MAX = 1024
PASSED_ON = (MessageKind.TRANSFER_LEADER, MessageKind.READ_INDEX)
COMPARISONS = (MessageKind.COMPARE, MessageKind.COMPARE_REPLY)
DENIALS = (MessageKind.VOTE_REPLY, MessageKind.PRE_VOTE_REPLY)


def implausible(message: Message, *, term: int, last_index: int) -> str | None:
    """Why no node of this quorum can have sent the message; None when one can. `term` and `last_index` are this
    node's."""
    if message.kind is MessageKind.PROPOSE:
        return "a proposal; nodes of this release forward commands, never entries"
    if not message.term and not _has_no_term(message):
        return f"{message.kind.name} of no term"  # with the term 0 this node would go back to term 0
    if message.term > term + TERM_RISE_MAX:
        return f"term {message.term}, this node is in {term}"
    if message.term and message.log_term > message.term:
        return f"an entry of term {message.log_term} in term {message.term}"
    if message.entries and (why := _implausible_entries(message)):
        return why
    if (message.snapshot is not None) != (message.kind is MessageKind.SNAPSHOT):
        return "a snapshot in a message of another kind, or none where one belongs"
    if message.snapshot is not None:
        return _implausible_snapshot(message.snapshot, message.term, last_index + INDEX_RISE_MAX)
    return None


def _has_no_term(message: Message) -> bool:
    """Forwarded messages and log comparisons have no term. Nor has a message of a node that knows no leader yet; it
    grants no vote."""
    return message.kind in PASSED_ON + COMPARISONS or (message.kind in DENIALS and message.reject)


def _implausible_entries(message: Message) -> str | None:
    if message.kind is not MessageKind.APPEND:
        return "entries in a message that is no append"
    before = message.log_term
    for entry in message.entries:
        if not before <= entry.term <= message.term:
            return f"an entry of term {entry.term} behind one of {before}, in term {message.term}"
        before = entry.term
        if entry.kind is not EntryKind.NORMAL and (why := _unreadable(entry)):
            return why
    return None


def _unreadable(entry: Entry) -> str | None:
    try:
        ChangeSet.of(entry).address  # noqa: B018 - reads it
    except MalformedMessage as error:
        return str(error)
    return None


def _implausible_snapshot(snapshot: Snapshot, term: int, index_max: int) -> str | None:
    voters, learners = snapshot.membership
    ids = (*voters, *learners)
    if snapshot.term > term or not 0 < snapshot.index <= index_max:
        return f"a snapshot of index {snapshot.index} and term {snapshot.term} in term {term}"
    if not voters or len(ids) > MEMBERS_MAX or len(set(ids)) < len(ids) or min(ids) <= NOBODY:
        return f"a snapshot with {len(voters)} voters and {len(learners)} learners that are no members"
    try:
        decode_image(snapshot.data)
    except MalformedMessage as error:
        return str(error)
    return None
