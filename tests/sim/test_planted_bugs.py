"""Every planted bug is caught, by the run that is kept here for it: a net that lets one through would let ours through.

The faults are those that bring the bug out, written down so that one run per bug suffices. Each run passes without it.
The known traps of transactions have a table of their own, tests/broker/test_transaction_traps.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from chronik.sim.faults import Fault
from chronik.sim.scenarios import run_named
from tests.broker.share import planted_share_bugs as share_bugs
from tests.replication import planted_bugs as replication_bugs
from tests.sim.planted import (
    access_bugs,
    consumer_group_bugs,
    cost_bugs,
    loss_bugs,
    member_bugs,
    metadata_bugs,
    move_bugs,
    record_bugs,
    swarm_bugs,
    topic_bugs,
    transaction_bugs,
    wire_bugs,
)

pytestmark = pytest.mark.slow


# The stored seed found the bug when it was added. Any change of the product's timing changes every run slightly, so the
# following seeds are tried too.
SEEDS_MAX = 12


class Planted(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: str
    seed: int
    faults: list[Fault] | None  # None: the seed draws them
    caught_by: str | tuple[str, ...]  # how the broken invariant's name begins
    seeds_max: int = SEEDS_MAX
    only: str = ""  # the fault that every schedule has which is drawn


SLOW_LEADER = [Fault(500, "slow disk", 0, duration_ms=8000, amount=65)]
DEPOSED_AND_RESTARTED = [Fault(1000, "isolate", 1, duration_ms=2000), Fault(3300, "kill", 1, duration_ms=300)]
LEADERS_IN_TURN = [Fault(at_ms, "isolate", 0, duration_ms=2000) for at_ms in (500, 3500, 6500)]
# Disks that are slow leave entries on a minority when their leader goes, for a later one to find.
SLOW_DISKS_AND_LEADERS_IN_TURN = [
    Fault(300, "slow disk", 1, duration_ms=9000, amount=40),
    Fault(300, "slow disk", 2, duration_ms=9000, amount=60),
    *(Fault(500 + 1100 * number, "isolate", 0, duration_ms=1300) for number in range(8)),
]
VOTER_RESTARTED = [
    Fault(300, "cut", 1, duration_ms=8500, other=2),
    *(Fault(1000 + 450 * number, "kill", 3, duration_ms=40) for number in range(16)),
]

CUT_OFF_FOR_LONG = [Fault(300, "isolate", 1, duration_ms=11_000)]
IN_TURN = [Fault(700 + 1300 * number, "kill", 1 + number % 3, duration_ms=900) for number in range(7)]
ALL_LOSE_POWER = [
    Fault(900 + 2500 * number + 17 * node, "power", node, duration_ms=700) for number in range(3) for node in (1, 2, 3)
]
PAUSED_IN_TURN = [Fault(400 + 4300 * number, "pause", 1 + number, duration_ms=3900) for number in range(3)]
ORDERS = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1))
# A leader dies. A follower that is slow to reach the successor has not fetched from it when it dies as well.
ELECTED_BEFORE_IT_FETCHED = [
    fault
    for number, (leader, successor, follower) in enumerate(ORDERS)
    for fault in (
        Fault(300 + 3700 * number, "slow link", successor, duration_ms=2900, other=follower, amount=400),
        Fault(600 + 3700 * number, "kill", leader, duration_ms=500),
        Fault(2500 + 3700 * number, "kill", successor, duration_ms=700),
    )
]
DISKS_FAIL = [Fault(1000 * number, "sync error", number % 4) for number in range(1, 8)]

ONE_COMES = [Fault(500, "join", 4, duration_ms=2000, other=1)]
ONE_GOES = [Fault(500, "leave", 3, duration_ms=2000, other=1)]
TWO_COME_AND_ONE_GOES = [*ONE_COMES, Fault(500, "join", 5, duration_ms=2000, other=2), *ONE_GOES]
ONE_COMES_AND_TWO_GO = [*ONE_GOES, Fault(900, "join", 4, 3000, other=1), Fault(910, "leave", 0, 3000, other=2)]
# First it only receives, then the cluster forgets it while it is isolated.
FORGOTTEN_WHILE_CUT_OFF = [
    *ONE_GOES,
    Fault(1500, "isolate", 3, duration_ms=2500),
    Fault(1700, "leave", 3, duration_ms=2000, other=1, amount=2),
]
# Two agree while the third is cut off; one of them forgets, the other goes, and the two that know nothing of it elect.
FORGOT_AND_ELECTED = [
    Fault(300, "isolate", 3, duration_ms=4200),
    Fault(4300, "kill", 1, duration_ms=5000),
    Fault(4350, "lost metadata", 2, duration_ms=50),
]
# All are killed. One is back without its journal and may lead; one that holds everything is slow to say so.
LEADS_WITHOUT_ITS_JOURNAL = [
    Fault(4000, "kill", 2, duration_ms=850),
    Fault(4000, "kill", 3, duration_ms=300),
    Fault(4000, "lost journal", 1, duration_ms=700, other=1),
    Fault(4500, "slow link", 2, duration_ms=7000, other=1, amount=300),
]

# Two of five nodes are left, which receive everything twice.
TWO_OF_FIVE_HEAR_DOUBLE = [
    *(
        Fault(300, "doubled frames", node, 9000, other)
        for node in range(1, 6)
        for other in range(1, 6)
        if node != other
    ),
    *(Fault(1000, "kill", node, duration_ms=5000) for node in (1, 2, 3)),
]
READS_ARE_SHORT = [
    *(Fault(300, "short reads", node, duration_ms=8500, amount=600) for node in (1, 2, 3)),
    *IN_TURN,
]

CASES = [
    Planted(metadata_bugs.promise_forgotten_at_restart, "metadata", 5, VOTER_RESTARTED, "6"),
    Planted(metadata_bugs.entries_acknowledged_before_fsync, "metadata", 0, [], "3"),
    Planted(metadata_bugs.journal_never_synced, "metadata", 0, [], "1"),
    Planted(metadata_bugs.highest_term_wins_at_recovery, "quorum", 3, DEPOSED_AND_RESTARTED, "2"),
    Planted(metadata_bugs.stale_suffix_kept_at_recovery, "quorum", 3, DEPOSED_AND_RESTARTED, "2"),
    Planted(
        metadata_bugs.lease_longer_than_the_election_timeout,
        "metadata",
        2,
        [Fault(500, "isolate", 1, duration_ms=3000)],
        "6",
    ),
    Planted(metadata_bugs.lease_without_a_look_at_what_is_applied, "metadata", 21, SLOW_LEADER, "5"),
    Planted(
        metadata_bugs.follower_reads_before_it_applied_all_it_holds,
        "metadata",
        3,
        [Fault(500, "slow link", 1, duration_ms=8000, other=2, amount=90)],
        "5",
    ),
    Planted(
        metadata_bugs.commits_do_not_wait_for_lease_holders,
        "metadata",
        10,
        [Fault(500, "isolate", 3, duration_ms=300), Fault(2500, "isolate", 2, duration_ms=300)],
        "5",
    ),
    Planted(
        metadata_bugs.forwarded_command_applied_twice,
        "metadata",
        10,
        [Fault(500, "cut", 1, duration_ms=2500, other=2), Fault(4500, "cut", 1, duration_ms=2500, other=3)],
        ("5", "a node stops by itself"),  # clients see it, or replay refuses an already applied record
    ),
    Planted(metadata_bugs.older_terms_committed_by_counting, "metadata", 0, SLOW_DISKS_AND_LEADERS_IN_TURN, "3"),
    Planted(metadata_bugs.vote_not_persisted, "metadata", 0, [Fault(500, "kill", 3, duration_ms=300)], "1"),
    Planted(metadata_bugs.snapshot_without_membership, "metadata", 14, [Fault(500, "kill", 3, duration_ms=4000)], "4"),
    Planted(metadata_bugs.stale_leader_answers_reads, "metadata", 3, LEADERS_IN_TURN, "6"),
    Planted(metadata_bugs.lost_append_never_sent_again, "quorum", 3, [Fault(300, "kill", 2, duration_ms=1500)], "3"),
    Planted(member_bugs.commits_counted_by_the_members_before, "members", 0, ONE_COMES, "3"),
    Planted(member_bugs.changes_made_at_once, "members", 0, TWO_COME_AND_ONE_GOES, "3"),
    Planted(member_bugs.followers_pass_changes_over, "members", 0, ONE_GOES, "4"),
    Planted(member_bugs.leases_for_nodes_that_were_removed, "members", 0, FORGOTTEN_WHILE_CUT_OFF, "25"),
    Planted(member_bugs.voters_that_would_not_vote, "members", 0, ONE_COMES_AND_TWO_GO, "25"),
    Planted(replication_bugs.follower_asks_for_more_before_its_fsync, "records", 0, [], "10"),
    Planted(replication_bugs.leader_counts_itself_before_its_fsync, "records", 0, [], "10"),
    Planted(replication_bugs.high_watermark_is_the_end_of_the_log, "records", 0, [], "10"),
    Planted(replication_bugs.in_sync_member_not_counted_while_it_is_behind, "records", 0, None, "10"),
    Planted(replication_bugs.shrinks_take_effect_before_the_controller_agrees, "records", 0, None, "10"),
    Planted(replication_bugs.no_truncation_at_all, "records", 27, ALL_LOSE_POWER, ("9", "25")),
    Planted(record_bugs.offset_commit_acknowledged_before_it_is_replicated, "records", 3, ALL_LOSE_POWER, "17"),
    Planted(record_bugs.coordinator_serves_before_it_has_loaded, "records", 0, IN_TURN, "17"),
    Planted(
        replication_bugs.truncation_to_the_high_watermark,
        "records",
        3,
        ELECTED_BEFORE_IT_FETCHED,
        ("7", "8", "9", "10", "22"),
        seeds_max=60,
    ),
    Planted(record_bugs.stale_leader_accepts_produces_after_fencing, "records", 0, IN_TURN, ("7", "8", "9", "11")),
    Planted(record_bugs.follower_applies_a_fetch_of_an_old_epoch, "records", 0, PAUSED_IN_TURN, "9"),
    Planted(record_bugs.controller_uses_an_epoch_again, "records", 0, None, "11"),
    Planted(record_bugs.group_generation_lost_on_failover, "groups", 0, None, "18"),
    Planted(consumer_group_bugs.partitions_that_are_given_up_are_free_at_once, "consumer-groups", 0, None, "18"),
    Planted(consumer_group_bugs.heartbeats_are_decided_on_committed_state, "consumer-groups", 0, None, "18"),
    Planted(share_bugs.the_start_moves_over_what_is_available, "share-groups", 1, None, ("25", "31")),
    Planted(record_bugs.damage_is_taken_for_a_torn_tail, "damage", 0, None, ("10", "22")),
    Planted(record_bugs.batches_are_not_checked, "damage", 0, None, "22"),
    Planted(record_bugs.node_goes_on_after_a_failed_fsync, "records", 3, DISKS_FAIL, "21"),
    Planted(record_bugs.compaction_mistakes_keys_for_each_other, "upkeep", 0, [], ("7", "9")),
    Planted(record_bugs.swap_in_progress_is_forgotten_at_recovery, "upkeep", 1, None, ("7", "9", "22")),
    Planted(move_bugs.moves_end_before_the_newcomers_have_caught_up, "moves", 5, None, ("7", "9", "10", "11")),
    Planted(move_bugs.replicas_that_were_moved_away_stay, "moves", 0, None, "25"),
    # Or by a check in the product: a follower is asked to drop committed records.
    Planted(
        topic_bugs.log_of_the_old_topic_is_used_for_the_new_one,
        "recreated",
        12,
        None,
        ("7", "8", "9", "a node stops by itself"),
    ),
    Planted(topic_bugs.logs_stay_of_topics_that_went_while_a_node_was_down, "recreated", 0, None, "25 nothing is left"),
    Planted(topic_bugs.deletions_are_not_journaled, "recreated", 0, None, ("7", "8", "9", "a node stops by itself")),
    Planted(topic_bugs.configs_of_the_old_topic_hold_for_the_new_one, "recreated", 3, None, ("7", "29")),
    Planted(loss_bugs.a_leader_is_proven_by_the_first_that_agrees, "loss", 0, LEADS_WITHOUT_ITS_JOURNAL, ("7", "8")),
    Planted(loss_bugs.missing_journals_are_not_noticed, "loss", 100, None, ("7", "8"), only="lost journal"),
    Planted(
        loss_bugs.exchanged_directories_are_not_noticed, "loss", 2, None, ("8", "9", "25"), only="exchanged partitions"
    ),
    Planted(
        loss_bugs.batches_of_another_partition_are_taken_for_our_own,
        "loss",
        248,
        None,
        ("8", "9"),
        only="misdirected write",
    ),
    Planted(loss_bugs.what_memory_has_lost_is_not_verified_again, "loss", 0, None, "22", only="live rot in segment"),
    Planted(loss_bugs.lost_replicas_are_not_reported, "loss", 4, None, ("9", "25"), only="rot in segment"),
    Planted(loss_bugs.the_controller_counts_on_lost_replicas, "loss", 4, None, ("9", "25"), only="rot in segment"),
    Planted(loss_bugs.damage_is_forgotten_and_not_cut, "loss", 2, None, ("9", "22", "25"), only="rot in segment"),
    Planted(loss_bugs.a_voter_with_an_old_log_votes_at_once, "loss", 4, None, ("4", "25"), only="old metadata"),
    Planted(loss_bugs.a_repaired_directory_keeps_its_id, "loss", 100, None, ("7", "8"), only="lost journal"),
    Planted(loss_bugs.an_empty_disk_passes_for_the_old_one, "loss", 100, None, ("7", "8"), only="lost journal"),
    Planted(
        loss_bugs.a_checkpoint_with_a_wrong_bit_is_believed,
        "loss",
        3,
        None,
        ("8", "9", "25", "a damaged node ends"),  # depends on the meaning of the wrong bit
        only="rot in checkpoint",
    ),
    Planted(loss_bugs.a_snapshot_with_a_wrong_bit_is_believed, "loss", 2, None, ("4", "25"), only="rot in snapshot"),
    Planted(loss_bugs.an_amnesiac_votes_at_once, "loss", 57, FORGOT_AND_ELECTED, ("4", "25"), seeds_max=40),
    Planted(loss_bugs.silent_brokers_are_never_fenced, "lasting", 0, None, "25", only="mute node"),
    Planted(loss_bugs.replicas_without_space_stay_where_they_are, "lasting", 1, None, "25", only="filled disk"),
    Planted(loss_bugs.a_hung_disk_is_not_noticed, "lasting", 1, None, "25", only="hung disk"),
    Planted(loss_bugs.mended_replicas_are_not_taken_back, "loss", 0, None, "25", only="rot in segment"),
    Planted(loss_bugs.damaged_replicas_wait_for_ever, "loss", 0, None, "25", only="rot in segment"),
    Planted(loss_bugs.laggards_stay_in_sync, "lasting", 1, None, "25", only="cut link"),
    Planted(wire_bugs.strangers_are_heard, "wire", 2, None, ("5", "25"), only="stranger"),
    Planted(wire_bugs.votes_that_come_twice_count_twice, "wire", 1, TWO_OF_FIVE_HEAR_DOUBLE, "1"),
    Planted(swarm_bugs.node_0_is_taken_for_nobody, "swarm", 5, None, "the cluster starts"),
    Planted(
        swarm_bugs.a_short_read_is_taken_for_the_end, "records", 0, READS_ARE_SHORT, ("7", "9", "22", "25", "a node")
    ),
    Planted(swarm_bugs.a_lease_outlives_a_leadership_that_is_handed_over, "swarm", 257, None, "6"),
    Planted(cost_bugs.waiting_fetches_count_everything_at_once, "overload", 3, None, "23 no callback"),
    *[
        Planted(plant, "transactions", seed, None, caught_by)
        for plant, seed, caught_by in (
            (transaction_bugs.a_late_request_ends_the_next_transaction, 0, ("13", "14", "15")),
            (transaction_bugs.a_new_producer_fences_nobody, 0, ("13", "14", "15")),
            (transaction_bugs.partitions_do_not_ask_whether_a_transaction_goes_on, 0, ("13", "14", "16")),
            (transaction_bugs.some_partitions_get_no_marker, 0, ("13", "14", "16")),
            (transaction_bugs.timeouts_are_forgotten, 6, ("16", "every client", "25")),
        )
    ],
    *[
        Planted(plant, "access", seed, faults, caught_by)
        for plant, seed, faults, caught_by in (
            (access_bugs.a_handler_does_not_ask, 0, None, "24"),
            (access_bugs.what_was_allowed_once_is_allowed_for_ever, 0, None, "24"),
            (access_bugs.an_allowing_rule_wins_over_a_denying_one, 1, None, "24"),
            (access_bugs.a_denying_rule_implies_what_an_allowing_one_does, 0, None, "24"),
            (access_bugs.a_prefix_does_not_fit_the_name_that_it_is, 1, None, "24"),
            (access_bugs.a_prefix_fits_names_that_it_begins_with, 0, None, "24"),
            (access_bugs.hosts_are_not_compared, 0, None, "24"),
            # Nodes that have lost the rules by which they replicate do not recover either.
            (access_bugs.a_snapshot_has_no_rules, 6, None, ("24", "25")),
            (access_bugs.a_node_never_asks_whether_its_rules_are_current, 8, CUT_OFF_FOR_LONG, "24"),
            (access_bugs.a_login_goes_by_users_of_any_age, 6, CUT_OFF_FOR_LONG, "24"),
            (access_bugs.a_deleted_user_can_still_log_in, 2, None, "24"),
            (access_bugs.a_login_goes_by_tokens_of_any_age, 0, CUT_OFF_FOR_LONG, "24"),
            (access_bugs.a_token_outlives_its_expiry, 0, None, "24"),
            (access_bugs.a_removed_token_can_still_log_in, 0, None, "24"),
            (access_bugs.quotas_are_not_enforced, 1, None, "24"),
        )
    ],
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_bug_is_caught(case: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    case.plant(monkeypatch)
    for seed in range(case.seed, case.seed + case.seeds_max):
        outcome = run_named(case.scenario, seed, case.faults, only=case.only)
        if outcome.failure is not None:
            assert outcome.invariant.startswith(case.caught_by), str(outcome.failure)
            return
    pytest.fail(f"{case.plant.__name__} went unseen")


@pytest.mark.parametrize(
    "case",
    {(case.scenario, case.seed, str(case.faults), case.only): case for case in CASES}.values(),
    ids=lambda case: case.plant.__name__,
)
def test_the_same_run_without_the_bug_passes(case: Planted) -> None:
    """Or the net would be caught by itself."""
    assert run_named(case.scenario, case.seed, case.faults, only=case.only).failure is None
