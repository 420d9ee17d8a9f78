"""How a quorum starts: every founder writes the same first snapshot, so their logs agree without any communication."""

from __future__ import annotations

from collections.abc import Mapping

from chronik.raft.addresses import Address, encode_image
from chronik.raft.journal import RaftJournal, Recovered
from chronik.raft.journal_format import Base
from chronik.raft.messages import NOBODY, HardState, Membership, Snapshot

FOUNDING = Base(1, 1)  # not 0: an empty node that joins must see that it needs a snapshot


def found(journal: RaftJournal, voters: Mapping[int, Address]) -> Recovered:
    """Blocks: call it on the journal's lane. A crash halfway leaves nothing, or a usable snapshot."""
    members = Membership(tuple(sorted(voters)))
    snapshot = Snapshot(FOUNDING.base_index, FOUNDING.base_term, members, encode_image(voters, None))
    hard_state = HardState(FOUNDING.base_term, NOBODY, FOUNDING.base_index)
    journal.write_snapshot(snapshot)
    journal.rewrite(hard_state, FOUNDING, ())
    return Recovered(snapshot, hard_state, FOUNDING, ())
