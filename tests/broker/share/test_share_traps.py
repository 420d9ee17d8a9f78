"""The known traps of share groups, S1 to S12: each is planted here as a bug, and each is caught.

A row names the trap, the patch of the product that falls into it, and the test that fails because of it. A trap that
nothing catches is a hole in the tests. S11, an offset that is altered under a leader, is of the share coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from chronik.runtime.invariants import InvariantBroken
from tests.broker.harness import Closed
from tests.broker.share import planted_share_bugs as bugs
from tests.broker.share import test_isolation as isolation
from tests.broker.share import test_members as members
from tests.broker.share import test_writing as writing

# What a test or a check of the product raises, and what a client sees of a node that ends because of it. Anything else,
# a TypeError say, is a mistake of the patch.
COMPLAINTS = (AssertionError, InvariantBroken, Closed)


class Trap(NamedTuple):
    number: int
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: Callable[[], None]


LEAVES = members.test_a_member_that_leaves_holds_nothing

TRAPS = [
    Trap(
        1,
        bugs.gaps_count_as_done_after_a_failover,
        members.test_what_a_leader_did_not_write_is_delivered_again_by_the_next_one,
    ),
    Trap(
        2,
        bugs.the_state_is_read_as_by_nobody,
        writing.test_the_state_is_read_with_the_leader_epoch_and_again_when_the_leadership_has_moved,
    ),
    Trap(
        2,
        bugs.a_fenced_leader_goes_on,
        writing.test_a_leader_that_was_replaced_serves_nothing_more_and_reads_the_state_again,
    ),
    Trap(3, bugs.what_is_held_can_be_acquired, members.test_what_is_accepted_is_delivered_once),
    Trap(
        4,
        bugs.the_count_is_not_written_with_a_release,
        members.test_a_record_that_is_released_too_often_is_given_up_and_does_not_come_back_with_another_leader,
    ),
    Trap(
        4,
        bugs.counts_of_ended_locks_are_forgotten_with_a_failed_write,
        writing.test_a_lock_that_ends_while_an_acknowledgement_fails_is_released_at_last,
    ),
    Trap(
        5,
        bugs.the_timer_of_a_lock_releases_what_is_acknowledged,
        members.test_the_timer_of_a_lock_finds_what_became_of_its_record,
    ),
    Trap(
        6,
        bugs.a_failed_acknowledgement_gives_back_a_lock_that_has_ended,
        writing.test_a_lock_that_ends_while_an_acknowledgement_fails_is_released_at_last,
    ),
    Trap(
        7,
        bugs.the_start_moves_over_what_is_available,
        members.test_what_is_released_goes_to_another_member_with_a_higher_delivery_count,
    ),
    Trap(
        7,
        bugs.the_start_moves_before_it_is_written,
        writing.test_a_lock_that_ends_while_an_acknowledgement_fails_is_released_at_last,
    ),
    Trap(8, bugs.what_is_not_committed_is_read, writing.test_what_is_not_committed_is_not_delivered),
    Trap(9, bugs.aborted_records_are_delivered, isolation.test_records_of_an_aborted_transaction_are_not_delivered),
    Trap(9, bugs.open_transactions_are_read, isolation.test_records_of_an_aborted_transaction_are_not_delivered),
    Trap(
        10,
        bugs.the_start_of_the_log_is_not_noticed,
        members.test_records_that_retention_removes_are_nobodys_any_more,
    ),
    Trap(12, bugs.a_closed_session_leaves_its_records_locked, partial(LEAVES, "by an acknowledgement")),
    Trap(12, bugs.a_lost_connection_leaves_its_session_open, partial(LEAVES, "the connection is lost")),
]


@pytest.mark.parametrize("trap", TRAPS, ids=[f"S{each.number}-{each.plant.__name__}" for each in TRAPS])
def test_the_trap_is_noticed(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    trap.caught_by()
    trap.plant(monkeypatch)
    with pytest.raises(COMPLAINTS):
        trap.caught_by()
