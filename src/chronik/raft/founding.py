"""How a quorum starts: every founder writes the same first snapshot, so their logs agree without communication."""

from __future__ import annotations

from collections.abc import Mapping

from chronik.raft.addresses import Address, encode_image
from chronik.raft.journal import RaftJournal, Recovered
from chronik.raft.journal_format import Base
from chronik.raft.messages import NOBODY, HardState, Membership, Snapshot

FOUNDING = Base(1, 1)  # not 0: a node that joins empty must see that the log does not reach back to it


def found(journal: RaftJournal, voters: Mapping[int, Address]) -> Recovered:
    """Blocks: it belongs on the journal's lane. A crash halfway leaves nothing, or a snapshot that will do."""
    members = Membership(tuple(sorted(voters)))
    snapshot = Snapshot(FOUNDING.base_index, FOUNDING.base_term, members, encode_image(voters, None))
    hard_state = HardState(FOUNDING.base_term, NOBODY, FOUNDING.base_index)
    journal.write_snapshot(snapshot)
    journal.rewrite(hard_state, FOUNDING, ())
    return Recovered(snapshot, hard_state, FOUNDING, ())
