"""The known traps of transactions, P1 to P19: each is planted here as a bug, and each is caught.

A row names the trap, the patch of the product that falls into it, and what catches it: a test, or seeds of the
simulator with the invariant that they find broken. A trap that nothing catches is a hole in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from chronik.runtime.invariants import InvariantBroken
from chronik.sim.disk import SimDisk
from chronik.sim.errors import SimError
from chronik.sim.scenarios import run_named
from chronik.storage.config import LogConfig
from chronik.storage.errors import StorageError
from chronik.storage.log import Log
from tests.broker import planted_transaction_bugs as broker_bugs
from tests.broker import test_crashes_in_end_of_transaction as crash_tests
from tests.broker import test_transaction_markers as marker_tests
from tests.broker import test_transactions_cluster as cluster_tests
from tests.broker.apis import test_txn_offset_commit as offset_api_tests
from tests.broker.apis import test_write_txn_markers as marker_api_tests
from tests.coordinator import test_pending_offsets as offset_tests
from tests.coordinator.transactions import planted_bugs as coordinator_bugs
from tests.coordinator.transactions import test_coordinator as coordinator_tests
from tests.coordinator.transactions import test_late_requests as late_tests
from tests.sim.planted import transaction_bugs as simulated_bugs
from tests.storage import planted_transaction_bugs as storage_bugs
from tests.storage import test_log, test_transaction_model
from tests.storage import test_transaction_guards as guard_tests
from tests.storage.driving import open_logs, run, topic_id
from tests.storage.test_transaction_guards import Partition

# Any change of the product's timing changes every run slightly, so the seeds after the stored one are tried too.
SEEDS_MAX = 12
# The exceptions of tests and of the product's checks. Any other one, such as a TypeError, is an error in the patch.
COMPLAINTS = (AssertionError, pytest.fail.Exception, InvariantBroken, SimError, StorageError)


class Trap(NamedTuple):
    number: int
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: Callable[[], None]


def on_a_log(test: Callable[[Partition], None]) -> Callable[[], None]:
    async def made() -> Log:
        return (await open_logs(SimDisk(0))).create("t", topic_id(1), 0, LogConfig())

    return lambda: test(Partition(run(made)))


class Simulated(NamedTuple):
    """Seeds of the scenario `transactions`, and how the names of the invariants begin that they find broken."""

    seed: int
    broken: tuple[str, ...]

    def __call__(self) -> None:
        for seed in range(self.seed, self.seed + SEEDS_MAX):
            outcome = run_named("transactions", seed)
            if outcome.failure is not None:
                if not outcome.invariant.startswith(self.broken):
                    raise LookupError(f"not one of {self.broken}: {outcome.failure}")
                raise outcome.failure


def walks() -> None:
    for seed in range(20):
        test_transaction_model.walk(seed)


def offsets_by_their_place() -> None:
    for seed in range(5):
        offset_tests.test_a_pending_offset_counts_only_if_nothing_newer_does(seed)


TRAPS = [
    Trap(
        1,
        storage_bugs.a_marker_of_the_same_epoch_ends_a_transaction_of_version_2,
        on_a_log(
            partial(
                guard_tests.test_a_marker_of_version_2_has_a_higher_epoch_than_its_transaction,
                version=2,
                epoch=5,
                is_open=True,
                taken=False,
            )
        ),
    ),
    Trap(
        2,
        coordinator_bugs.the_epoch_is_compared_before_a_pending_transition_is_noticed,
        coordinator_tests.test_a_producer_that_repeats_its_end_while_the_markers_are_written_is_asked_to_come_again,
    ),
    Trap(
        3,
        coordinator_bugs.the_end_of_the_last_epoch_names_the_old_producer_id,
        coordinator_tests.test_the_last_epoch_of_a_producer_id_is_followed_by_a_new_id,
    ),
    Trap(
        3,
        coordinator_bugs.the_last_epoch_is_followed_by_no_other_id,
        coordinator_tests.test_the_last_epoch_of_a_producer_id_is_followed_by_a_new_id,
    ),
    Trap(
        3,
        storage_bugs.the_largest_epoch_is_late_too,
        on_a_log(guard_tests.test_a_transaction_of_the_largest_epoch_can_be_ended),
    ),
    Trap(
        4,
        storage_bugs.an_open_transaction_of_an_older_epoch_counts_as_open,
        on_a_log(guard_tests.test_an_open_transaction_of_an_older_epoch_is_not_the_one_of_this_batch),
    ),
    Trap(
        5,
        storage_bugs.a_producer_gets_the_same_guard_again,
        on_a_log(partial(guard_tests.test_an_answer_from_before_a_marker_opens_no_transaction, committed=False)),
    ),
    Trap(
        6,
        storage_bugs.the_stable_offset_forgets_decisions_that_are_not_committed,
        test_log.test_transactions_hold_the_stable_offset_until_their_marker_is_settled,
    ),
    Trap(6, storage_bugs.the_stable_offset_forgets_decisions_that_are_not_committed, walks),
    Trap(
        7,
        coordinator_bugs.one_marker_completes_a_transaction,
        coordinator_tests.test_a_transaction_from_begin_to_end,
    ),
    Trap(
        7,
        broker_bugs.markers_are_acknowledged_when_they_are_appended,
        marker_api_tests.test_a_marker_counts_when_it_is_committed,
    ),
    Trap(7, simulated_bugs.markers_count_when_they_are_sent, Simulated(3, ("13", "14", "16"))),
    Trap(
        8,
        coordinator_bugs.a_decision_is_told_before_it_is_committed,
        coordinator_tests.test_the_end_is_answered_when_the_decision_is_committed_and_not_before,
    ),
    Trap(
        9,
        coordinator_bugs.the_next_leader_does_not_carry_out_what_was_decided,
        partial(
            crash_tests.test_a_commit_survives_a_node_that_dies_at_any_step,
            step=crash_tests.STEPS[1],
            death=crash_tests.DEATHS[0],
            versions=crash_tests.NEW,
        ),
    ),
    Trap(
        9,
        coordinator_bugs.the_next_leader_does_not_carry_out_what_was_decided,
        partial(coordinator_tests.test_the_next_leader_carries_out_what_was_decided, commits=True),
    ),
    Trap(
        9,
        coordinator_bugs.the_next_leader_does_not_carry_out_what_was_decided,
        Simulated(9, ("16", "every client", "25")),
    ),
    Trap(
        10,
        coordinator_bugs.pending_offsets_are_forgotten_when_loading_ends,
        partial(cluster_tests.test_pending_offsets_outlive_their_coordinator, seed=0, commits=True),
    ),
    Trap(10, coordinator_bugs.pending_offsets_are_forgotten_when_loading_ends, offsets_by_their_place),
    Trap(11, coordinator_bugs.a_pending_offset_overwrites_a_newer_commit, offsets_by_their_place),
    Trap(
        12,
        storage_bugs.a_coordinators_batches_are_checked_like_a_clients,
        on_a_log(guard_tests.test_a_coordinators_batches_are_numbered_alike_and_all_written),
    ),
    Trap(
        13,
        storage_bugs.a_marker_of_a_forgotten_producer_is_refused,
        on_a_log(guard_tests.test_a_marker_of_a_producer_that_nobody_remembers_is_written),
    ),
    Trap(14, storage_bugs.the_stable_offset_moves_before_the_abort_is_known_to_readers, walks),
    Trap(
        15,
        coordinator_bugs.a_commit_is_confirmed_whatever_the_outcome_was,
        coordinator_tests.test_without_epoch_bump_a_commit_is_confirmed_only_of_a_transaction_that_was_committed,
    ),
    Trap(
        15,
        coordinator_bugs.requests_on_older_connections_are_carried_out,
        late_tests.test_a_request_that_was_held_up_on_an_older_connection_changes_nothing,
    ),
    Trap(15, coordinator_bugs.requests_on_older_connections_are_carried_out, Simulated(0, ("13", "14"))),
    Trap(
        15,
        broker_bugs.commits_on_older_connections_are_admitted,
        partial(
            offset_api_tests.test_a_commit_that_was_held_up_on_an_older_connection_sets_the_group_back_no_more,
            version=offset_api_tests.VERIFIES,
        ),
    ),
    Trap(
        16,
        coordinator_bugs.a_fence_that_was_not_written_raises_the_epoch_all_the_same,
        partial(coordinator_tests.test_a_timeout_that_cannot_be_written_is_tried_again, level=1),
    ),
    Trap(
        17,
        coordinator_bugs.ids_expire_while_a_transition_is_on_its_way,
        coordinator_tests.test_an_id_stays_while_its_last_transition_is_on_its_way,
    ),
    Trap(
        17,
        coordinator_bugs.ids_expire_while_their_markers_are_written,
        coordinator_tests.test_an_id_stays_until_its_markers_are_written,
    ),
    Trap(
        18,
        storage_bugs.markers_of_former_coordinators_are_taken,
        on_a_log(guard_tests.test_a_former_coordinator_ends_nothing),
    ),
    Trap(
        18,
        broker_bugs.a_former_coordinator_goes_on_sending_markers,
        marker_tests.test_orders_of_a_leadership_that_is_over_are_dropped,
    ),
    Trap(
        19,
        broker_bugs.hanging_transactions_are_left_alone,
        partial(cluster_tests.test_readers_go_on_after_an_unclean_election_has_lost_a_marker, commits=True),
    ),
]


def named(trap: Trap) -> str:
    return f"P{trap.number}-{trap.plant.__name__}"


@pytest.mark.slow
@pytest.mark.parametrize("trap", TRAPS, ids=named)
def test_a_trap_is_noticed(trap: Trap, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A net that lets one of these through would let ours through too."""
    caplog.set_level("CRITICAL")
    trap.plant(monkeypatch)
    with pytest.raises(COMPLAINTS):
        trap.caught_by()


@pytest.mark.slow
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if isinstance(trap.caught_by, Simulated)], ids=named)
def test_the_same_seed_without_the_bug_passes(trap: Trap) -> None:
    """Or the net would be caught by itself. The tests of the other rows pass where they are written."""
    assert isinstance(trap.caught_by, Simulated)
    assert run_named("transactions", trap.caught_by.seed).failure is None


def test_every_trap_has_a_row() -> None:
    assert sorted({trap.number for trap in TRAPS}) == list(range(1, 20))
