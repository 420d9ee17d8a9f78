"""One replica: what it commits, which requests it serves, and which records it never drops."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from chronik.replication.coordinator_partition import CoordinatorPartition
from chronik.replication.errors import (
    FencedEpoch,
    NotCompared,
    NotEnoughReplicas,
    NotLeader,
    NotYetAvailable,
    TimedOut,
    TooFewReplicasAfterAppend,
    UnknownEpoch,
)
from chronik.replication.progress import FollowerProgress
from chronik.replication.replica import PROVING_NS
from chronik.runtime.invariants import InvariantBroken
from chronik.storage.config import LogConfig
from tests.raft.virtual_time import run
from tests.replication.small import KEY, One, Session, fetched


def test_committed_is_what_every_in_sync_replica_holds_durably() -> None:
    """The lowest of its own durable offset and the offsets that its followers request."""

    async def story() -> None:
        one = await One.make()
        end = one.write(b"a", b"b")
        one.reports(2, end)
        one.reports(3, end)
        assert one.replica.high_watermark == 0, "the leader's own fsync is missing"
        waiting = one.replica.log.when_durable(end)
        assert waiting is not None
        await waiting
        assert one.replica.high_watermark == 2
        await one.write_durably(b"c")
        one.reports(2, 3)
        assert one.replica.high_watermark == 2, "one of the in-sync replicas lacks it"
        one.reports(3, 3)
        assert one.replica.high_watermark == 3

    run(story)


def test_a_new_leader_waits_for_followers_of_its_own_epoch() -> None:
    """Records that a follower reported in an earlier epoch may have been truncated since."""

    async def story() -> None:
        one = await One.make()
        end = await one.write_durably(b"a")
        one.reports(2, end)
        one.reports(3, end)
        assert one.replica.high_watermark == 1
        one.change(leader=2, leader_epoch=2)
        one.change(leader=1, leader_epoch=3)
        await one.write_durably(b"b")
        one.followers[2].end_offset = one.followers[3].end_offset = 2
        one.replica._commit()
        assert one.replica.high_watermark == 1
        one.reports(2, 2)
        one.reports(3, 2)
        assert one.replica.high_watermark == 2

    run(story)


def test_whoever_is_on_its_way_into_the_isr_counts_and_whoever_leaves_counts_too() -> None:
    """The controller may or may not have agreed: both ISRs must have every committed record (KIP-497)."""

    async def story() -> None:
        one = await One.make(isr=(1, 2))
        await one.write_durably(b"a")
        one.replica.ask_for_isr((1, 2, 3))
        one.reports(2, 1)
        assert one.replica.high_watermark == 0, "3 may be in already"
        one.replica.ask_for_isr((1,))
        assert one.replica.high_watermark == 1, "2 has it; 3 was refused"
        await one.write_durably(b"b")
        assert one.replica.high_watermark == 1, "2 is in until the controller says otherwise"
        one.change(isr=(1,))
        assert one.replica.high_watermark == 2

    run(story)


def test_nothing_is_committed_without_those_who_may_still_lead() -> None:
    """Whatever the configuration says by now: the controller may elect them until it says otherwise (KIP-966)."""

    async def story() -> None:
        one = await One.make(min_insync=2, isr=(1, 2))
        one.reports(2, await one.write_durably(b"a"))
        one.change(isr=(1,), elr=(2,))
        await one.write_durably(b"b")
        assert one.replica.high_watermark == 1
        one.replica.configure(replace(one.replica.settings, min_insync_replicas=1))
        assert one.replica.high_watermark == 1, "2 is still counted on"
        one.change(elr=())
        assert one.replica.high_watermark == 2

    run(story)


def test_whoever_waits_for_all_is_answered_in_time_also_if_the_leader_was_alone_when_they_began() -> None:
    """A follower comes in before this node's own disk has answered, and stalls."""

    async def story() -> None:
        one = await One.make(isr=(1,))
        waiting = one.replica.when_committed(one.write(b"a"), timeout_ms=1500)
        shared = one.replica.when_committed(one.write(b"b"), timeout_ms=3000)
        assert waiting is shared, "one journal round, one answer"
        one.reports(2, 0)
        one.replica.ask_for_isr((1, 2))
        await asyncio.sleep(2)
        assert waiting is not None
        assert not waiting.done(), "the most patient of them still waits"
        with pytest.raises(TimedOut):
            await waiting

    run(story)


def test_nothing_is_taken_for_all_while_the_controller_keeps_somebody_eligible() -> None:
    """Its min.insync.replicas may be higher than this node's own; nothing could be committed, so nothing is begun."""

    async def story() -> None:
        one = await One.make(isr=(1, 2))
        waiting = one.replica.when_committed(one.write(b"a"), timeout_ms=60_000)
        one.change(isr=(1,), elr=(2,))
        with pytest.raises(TooFewReplicasAfterAppend):
            await waiting  # type: ignore[misc]
        with pytest.raises(NotEnoughReplicas):
            one.replica.require_in_sync()

    run(story)


def test_records_are_deleted_when_every_in_sync_replica_starts_behind_them() -> None:
    """Otherwise an election could restore records after a client was told that they are deleted."""

    async def story() -> None:
        one = await One.make(isr=(1, 2))
        one.reports(2, await one.write_durably(b"a", b"b"))
        news = one.followers[2].session
        assert isinstance(news, Session)
        told = news.committed_count
        deleting = one.replica.delete_before(2, timeout_ms=1000)
        assert deleting is not None
        assert one.replica.log.start_offset == 2
        assert news.committed_count == told + 1, "the follower hears of it although nothing was written"
        one.followers[2].start_offset = 2
        one.reports(2, 2)
        await deleting
        assert one.replica.delete_before(1, timeout_ms=1000) is None
        late = one.replica.delete_before(2, timeout_ms=1000)
        assert late is None
        one.reports(2, await one.write_durably(b"c"))
        with pytest.raises(TimedOut):
            await one.replica.delete_before(3, timeout_ms=1000)  # type: ignore[misc]
        left = one.replica.delete_before(3, timeout_ms=1000)
        one.change(isr=(1,))
        await left  # type: ignore[misc]
        deposed = one.replica.delete_before(3, timeout_ms=1000)
        assert deposed is None

    run(story)


def test_what_only_the_page_cache_had_may_be_cut_from_a_follower() -> None:
    """chronik.durability=os: the only in-sync replica lost power and its tail, and leads again."""

    async def story() -> None:
        one = await One.make(leader=2, isr=(2,))
        replica = one.replica
        replica.configure(replace(replica.settings, log=LogConfig(durability="os")))
        replica.log.config = replica.settings.log
        replica.append_fetched(fetched([b"a"], offset=0, epoch=1))
        replica.append_fetched(fetched([b"b"], offset=1, epoch=1))
        replica.learn(2, 0)
        one.change(leader=-1, leader_epoch=2)
        one.change(leader=2, leader_epoch=3)
        replica.truncate_to(1)
        assert (replica.log.end_offset, replica.high_watermark) == (1, 1)

    run(story)


def test_a_new_minimum_takes_effect_at_once() -> None:
    """Where the cluster keeps replicas eligible, nothing is committed below the minimum; a lower one frees it."""

    async def story() -> None:
        one = await One.make(min_insync=2, isr=(1,))
        one.replica.is_elr_kept = True
        await one.write_durably(b"a")
        assert one.replica.high_watermark == 0
        one.replica.configure(replace(one.replica.settings, min_insync_replicas=1))
        assert one.replica.high_watermark == 1
        one.change(isr=(1, 2))
        waiting = one.replica.when_committed(one.write(b"b"), 60_000)
        one.replica.configure(replace(one.replica.settings, min_insync_replicas=3))
        with pytest.raises(TooFewReplicasAfterAppend):
            await waiting  # type: ignore[misc]

    run(story)


def test_a_follower_may_come_in_when_it_holds_what_is_committed_and_the_epochs_beginning() -> None:
    """Less than the epoch's beginning could lack what an earlier leader had acknowledged and this one not counted."""

    async def story() -> None:
        one = await One.make(isr=(1, 2))
        await one.write_durably(b"a", b"b")
        one.reports(2, 2)
        one.reports(3, 1)
        assert one.keeper.caught == []
        one.reports(3, 2)
        assert one.keeper.caught == [3]
        await one.write_durably(b"c")
        one.change(leader=2, leader_epoch=2)
        one.change(leader=1, leader_epoch=3)
        one.keeper.caught.clear()
        one.reports(3, 2)
        assert one.keeper.caught == [], "the epoch begins at 3"

    run(story)


def test_those_who_wait_are_answered_when_it_is_committed_in_order() -> None:
    """Each by its own offset: an earlier append does not wait for a later one."""

    async def story() -> None:
        one = await One.make()
        first = one.replica.when_committed(one.write(b"a"), 1000)
        second = one.replica.when_committed(one.write(b"b"), 1000)
        assert first is not None
        assert second is not None
        await one.replica.log.when_durable(2)  # type: ignore[misc]
        one.reports(2, 1)
        one.reports(3, 2)
        await first
        assert not second.done()
        one.reports(2, 2)
        await second
        assert one.replica.when_committed(2) is None

    run(story)


def test_those_who_wait_hear_that_leadership_is_lost_that_time_is_up_and_that_too_few_are_left() -> None:
    """Written, perhaps kept, perhaps not: the client must not be told that it survives."""

    async def story() -> None:
        one = await One.make(min_insync=2)
        overdue = one.replica.when_committed(one.write(b"a"), 200)
        with pytest.raises(TimedOut):
            await overdue  # type: ignore[misc]
        shrunk = one.replica.when_committed(one.write(b"b"), 60_000)
        one.change(isr=(1,))
        with pytest.raises(TooFewReplicasAfterAppend):
            await shrunk  # type: ignore[misc]
        with pytest.raises(NotEnoughReplicas):
            one.replica.require_in_sync()
        one.change(isr=(1, 2))
        deposed = one.replica.when_committed(one.write(b"c"), 60_000)
        one.change(leader=2, leader_epoch=2)
        with pytest.raises(NotLeader):
            await deposed  # type: ignore[misc]

    run(story)


def test_a_deposed_leader_takes_nothing_and_another_epoch_is_refused() -> None:
    """At once with the image that says so."""

    async def story() -> None:
        one = await One.make(epoch=5)
        one.replica.require_leader(5)
        with pytest.raises(FencedEpoch):
            one.replica.require_leader(4)
        with pytest.raises(UnknownEpoch):
            one.replica.require_leader(6)
        one.change(leader=2, leader_epoch=6)
        with pytest.raises(NotLeader):
            one.replica.require_leader()

    run(story)


def test_a_follower_serves_what_it_knows_to_be_committed() -> None:
    """KIP-392: a consumer that is ahead of this replica must retry; its offset is not wrong."""

    async def story() -> None:
        one = await One.make(leader=2)
        one.replica.append_fetched(fetched([b"a", b"b"], offset=0, epoch=1))
        one.replica.learn(1, 0)
        one.replica.require_readable(1)
        with pytest.raises(NotYetAvailable):
            one.replica.require_readable(2)
        one.replica.learn(9, 0)
        assert one.replica.high_watermark == 2, "never above what it holds"
        one.replica.learn(1, 0)
        assert one.replica.high_watermark == 2, "never back"

    run(story)


def test_nothing_committed_is_ever_cut_unless_an_unclean_election_was_seen() -> None:
    """A leader from the ISR has everything committed: if it seems not to, the node stops rather than agree."""

    async def story() -> None:
        one = await One.make(leader=2)
        one.replica.append_fetched(fetched([b"a", b"b"], offset=0, epoch=1))
        one.replica.append_fetched(fetched([b"c"], offset=2, epoch=1))
        one.replica.learn(2, 0)
        one.replica.truncate_to(2)
        assert one.replica.log.end_offset == 2
        with pytest.raises(InvariantBroken):
            one.replica.truncate_to(0)
        one.change(isr=(2,), leader=2, leader_epoch=1)
        one.change(isr=(3,), leader=3, leader_epoch=2)
        one.replica.truncate_to(0)
        assert (one.replica.log.end_offset, one.replica.high_watermark) == (0, 0)

    run(story)


def test_a_leader_that_wrote_nothing_forgets_its_epoch_when_it_follows() -> None:
    """Its successor never heard of that epoch and could not say where it ended."""

    async def story() -> None:
        one = await One.make(leader=2)
        one.replica.append_fetched(fetched([b"a"], offset=0, epoch=1))
        one.change(leader=1, leader_epoch=2)
        assert one.replica.log.epochs.latest == 2
        one.change(leader=2, leader_epoch=3)
        assert one.replica.log.epochs.latest == 1

    run(story)


def test_an_end_is_told_only_when_it_cannot_go_back() -> None:
    """KIP-207: clients of the last leader may have seen more than this one knows to be committed."""

    async def story() -> None:
        one = await One.make(leader=2)
        one.replica.append_fetched(fetched([b"a", b"b"], offset=0, epoch=1))
        one.replica.learn(1, 0)
        one.change(leader=1, leader_epoch=2)
        assert not one.replica.is_end_known
        await asyncio.sleep(0.1)
        one.reports(2, 2)
        one.reports(3, 2)
        assert one.replica.is_end_known

    run(story)


def test_a_leader_that_has_just_started_denies_nothing_before_others_agree() -> None:
    """Its disk may be an old copy. A client that gets "no such offset" starts again at the beginning of the log."""

    async def story() -> None:
        one = await One.make(is_from_before=True)
        assert not one.replica.is_end_known
        with pytest.raises(NotYetAvailable):
            one.replica.require_readable(5)
        with pytest.raises(NotYetAvailable):
            CoordinatorPartition(one.replica, lambda: 0).when_committed(0)
        one.reports(2, 0)
        assert one.replica.awaits_proof, "an in-sync follower has not been compared yet"
        one.reports(3, 0)
        assert one.replica.is_end_known
        one.replica.require_readable(5)
        assert CoordinatorPartition(one.replica, lambda: 0).when_committed(0) is None

    run(story)


def test_it_does_not_wait_for_ever_for_others_to_agree() -> None:
    async def story() -> None:
        one = await One.make(is_from_before=True)
        await asyncio.sleep(PROVING_NS / 1e9 + 0.001)
        assert one.replica.is_end_known
        one.replica.require_readable(5)
        assert one.write(b"a") == 1

    run(story)


@pytest.mark.parametrize(("isr", "elr"), [((1, 2), ()), ((1,), (2,))])
def test_it_appends_nothing_before_it_was_compared(isr: tuple[int, ...], elr: tuple[int, ...]) -> None:
    """Records that a leader with an old disk appends have a later epoch than the records that it lacks. After another
    crash its log would win, and the other replica would have to truncate acknowledged records."""

    async def story() -> None:
        one = await One.make(isr=isr, elr=elr, is_from_before=True, is_elr_kept=bool(elr))
        with pytest.raises(NotCompared, match=r"has just started, and compares its log with those of replicas \[2\]"):
            one.write(b"a")
        one.reports(2, 0)
        assert one.write(b"a") == 1

    run(story)


def test_a_leader_without_others_that_may_know_better_appends_at_once() -> None:
    async def story() -> None:
        one = await One.make(isr=(1,), is_from_before=True)
        assert one.write(b"a") == 1

    run(story)


def test_an_eligible_follower_that_was_compared_comes_in_at_once() -> None:
    """After all nodes were killed every partition has one in-sync and one eligible replica, and serves no sooner."""

    async def story() -> None:
        one = await One.make(isr=(1,), elr=(2,), min_insync=2, is_from_before=True, is_elr_kept=True)
        one.reports(3, 0)
        assert one.keeper.caught == [], "node 2 may hold more, and would have to cut its log if 3 came in"
        assert one.replica.awaits_proof
        one.reports(2, 0)
        assert set(one.keeper.caught) == {2, 3}
        assert not one.replica.awaits_proof

    run(story)


def test_a_leader_waits_for_every_eligible_follower() -> None:
    """The one that was compared may be the one that lost its records."""

    async def story() -> None:
        one = await One.make(isr=(1,), elr=(2, 3), min_insync=3, is_from_before=True, is_elr_kept=True)
        one.reports(2, 0)
        assert one.keeper.caught == []
        one.change(leader_epoch=2)
        one.reports(3, 0)
        assert one.keeper.caught == [], "what was found in another epoch does not count"
        one.reports(2, 0)
        assert set(one.keeper.caught) == {2, 3}

    run(story)


@pytest.mark.parametrize("doubt", ["its session ends", "it says again where it stands"])
def test_a_leader_compares_again_whoever_may_have_changed(doubt: str) -> None:
    """Its disk may have been replaced since, or its position has changed."""

    async def story() -> None:
        one = await One.make(isr=(1,), elr=(2, 3), min_insync=3, is_from_before=True, is_elr_kept=True)
        second = one.reports(2, 0)
        if doubt == "its session ends":
            del one.followers[2]
        else:
            second.named(start_offset=0, end_offset=3, last_epoch=0, leader_epoch=1, bytes_max=1, high_watermark=0)
        one.reports(3, 0)
        assert one.keeper.caught == []
        assert one.replica.awaits_proof
        one.reports(2, 0)
        assert set(one.keeper.caught) == {2, 3}

    run(story)


def test_a_leader_is_compared_with_whoever_became_eligible_since() -> None:
    async def story() -> None:
        one = await One.make(isr=(1, 2), elr=(3,), min_insync=3, is_from_before=True, is_elr_kept=True)
        one.reports(3, 0)
        one.change(isr=(1,), elr=(2, 3))
        assert one.keeper.caught == [], "node 2 held all that was acknowledged, and has not been heard of"
        assert one.replica.awaits_proof
        one.reports(2, 0)
        assert set(one.keeper.caught) == {2, 3}

    run(story)


def test_a_leader_without_in_sync_and_eligible_followers_waits_for_others() -> None:
    """No other replica is known to have more or the same records."""

    async def story() -> None:
        one = await One.make(isr=(1,), min_insync=2, is_from_before=True, is_elr_kept=True)
        one.reports(2, 0)
        assert one.replica.awaits_proof

    run(story)


def test_a_leader_of_a_new_topic_has_nothing_to_prove() -> None:
    async def story() -> None:
        one = await One.make()
        assert one.replica.is_end_known

    run(story)


def test_an_eligible_replica_that_holds_more_is_not_told_to_cut_its_log() -> None:
    """The leader has just started: it may be the one that lost something."""

    async def story() -> None:
        one = await One.make(epoch=2, isr=(1, 2), is_from_before=True)
        better = FollowerProgress(KEY, Session(2))  # type: ignore[arg-type]
        better.end_offset, better.last_epoch = 3, 1
        assert one.replica.is_surpassed_by(better)
        better.start_offset, better.told_high_watermark = 0, 2
        assert one.replica.is_surpassed_by(better), "offsets 0 and 1 are committed, and not here"
        one.replica.epoch_start_offset = 2
        assert not one.replica.is_surpassed_by(better), "offset 2 was lost before it was committed"
        other = FollowerProgress(KEY, Session(3))  # type: ignore[arg-type]
        other.end_offset, other.last_epoch = 3, 1
        assert not one.replica.is_surpassed_by(other), "what it holds may never have been committed"
        other.start_offset, other.told_high_watermark = 0, 3
        assert one.replica.is_surpassed_by(other), "it is not in sync, and offset 2 is committed, and not here"

    run(story)


def test_only_a_leader_asks_for_its_log_to_stay_in_memory() -> None:
    """Consumers read from the leader. A follower's synced records are rarely read again."""

    async def story() -> None:
        one = await One.make()
        assert one.replica.log.is_read
        one.change(leader=2, leader_epoch=2)
        assert not one.replica.log.is_read
        one.change(leader=1, leader_epoch=3)
        assert one.replica.log.is_read

    run(story)


def test_what_is_decided_once_for_all_requests_follows_every_change() -> None:
    """`is_leader`, `leader_epoch` and `takes_all`: an outdated value would accept records that are not replicated."""

    async def story() -> None:
        one = await One.make(epoch=5)
        replica = one.replica
        told = [(replica.is_leader, replica.leader_epoch, replica.takes_all)]
        changes: tuple[dict[str, object], ...] = (
            {"isr": (1, 2)},
            {"isr": (1, 2, 3)},
            {"leader": 2, "leader_epoch": 6},
            {"leader": 1, "leader_epoch": 7},
        )
        for change in changes:
            one.change(**change)
            told.append((replica.is_leader, replica.leader_epoch, replica.takes_all))
        replica.end()
        told.append((replica.is_leader, replica.leader_epoch, replica.takes_all))
        assert told == [
            (True, 5, True),
            (True, 5, False),
            (True, 5, True),
            (False, 6, False),
            (True, 7, True),
            (True, 7, False),
        ]

    run(story)
