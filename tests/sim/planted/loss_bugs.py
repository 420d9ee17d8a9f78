"""Bugs of nodes that lost a part of their state, of their repair, and of a cluster that continues without a node."""

from __future__ import annotations

import pytest

from chronik.metadata.active_controller import ActiveController
from chronik.metadata.commands.report_lost_replicas import ReportLostReplicas, ReportLostReplicasReply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.image import Partition
from chronik.metadata.own_files import OwnFiles
from chronik.metadata.sessions import BrokerSessions
from chronik.raft import journal
from chronik.raft.codec import decode_snapshot
from chronik.raft.driver import RaftNode
from chronik.raft.probation import Probation
from chronik.replication.assignment import Replicas
from chronik.replication.full_replicas import FullReplicas
from chronik.replication.isr_changes import IsrChanges
from chronik.replication.lost_replicas import LostReplicas
from chronik.replication.progress import FollowerProgress, Key
from chronik.replication.replica import Replica
from chronik.runtime.hung_disk import HungDisk
from chronik.runtime.interfaces import Disk
from chronik.sim import attendance
from chronik.storage import checkpoint, lost_logs, manifest, partition_metadata, recovery, verification
from chronik.storage.checkpoint import LogPoint
from chronik.storage.log import Log
from chronik.storage.segment import Segment

SNAPSHOT_HEAD_BYTES = 8  # of the file: magic and checksum

# A node that has lost something


def nobody_who_is_out_of_sync_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Otherwise a replica that knows the high watermark prevents a leader with an empty log from doing harm, which
    would hide the bugs below."""
    surpassed = Replica.is_surpassed_by

    def is_surpassed_by(self: Replica, progress: FollowerProgress) -> bool:
        return progress.broker_id in (*self.state.isr, *self.state.elr) and surpassed(self, progress)

    patch.setattr(Replica, "is_surpassed_by", is_surpassed_by)


def a_leader_is_proven_by_the_first_that_agrees(patch: pytest.MonkeyPatch) -> None:
    """That may be the one that knows less, and the eligible one, which knows more, has to cut its log."""
    nobody_who_is_out_of_sync_is_believed(patch)
    patch.setattr(manifest, "require_all", lambda *_args, **_named: None)

    def is_compared(self: Replica) -> bool:
        return any(each.counted_epoch == self.state.leader_epoch for each in self.followers.values())

    patch.setattr(Replica, "_is_compared", property(is_compared))


def missing_journals_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    nobody_who_is_out_of_sync_is_believed(patch)
    patch.setattr(manifest, "require_all", lambda *_args, **_named: None)


def exchanged_directories_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_metadata, "read", lambda disk, directory: None)


def batches_of_another_partition_are_taken_for_our_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verification, "_digests_agree", lambda *_args: True)
    patch.setattr(recovery, "digest_of", lambda mark: None)


def what_memory_has_lost_is_not_verified_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segment, "doubt", lambda self: None)


def lost_replicas_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LostReplicas, "report", lambda self, key: None)


def the_controller_counts_on_lost_replicas(patch: pytest.MonkeyPatch) -> None:
    """It takes note, and leaves them in sync."""

    def decide(self: ReportLostReplicas, state: ControllerState) -> Decision[ReportLostReplicasReply]:
        return Decision([], ReportLostReplicasReply(last_copies=[]))

    patch.setattr(ReportLostReplicas, "decide", decide)


def damage_is_forgotten_and_not_cut(patch: pytest.MonkeyPatch) -> None:
    """The damaged bytes stay, and the bytes after them are fetched."""

    def cut(log: Log, disk: Disk) -> None:
        log.damage = log.rot = None

    patch.setattr(lost_logs, "cut", cut)


def a_repaired_directory_keeps_its_id(patch: pytest.MonkeyPatch) -> None:
    """The controller relies on replicas that lack the records of the lost journal."""
    nobody_who_is_out_of_sync_is_believed(patch)
    patch.setattr(attendance, "renew_directory_id", lambda runtime, directory: None)


def an_empty_disk_passes_for_the_old_one(patch: pytest.MonkeyPatch) -> None:
    """The controller ignores directory ids."""
    nobody_who_is_out_of_sync_is_believed(patch)
    without = Elections.without
    patch.setattr(Elections, "without", lambda self, broker_id, *, lost=False: without(self, broker_id))


def a_checkpoint_with_a_wrong_bit_is_believed(patch: pytest.MonkeyPatch) -> None:
    def decode(path: str, data: bytes) -> tuple[int, list[LogPoint]]:
        lines = data.partition(b"\n")[2].decode(errors="replace").splitlines()
        return int(lines[0].removeprefix("journal ")), [LogPoint.parse(line) for line in lines[1:]]

    patch.setattr(checkpoint, "decode", decode)


def an_amnesiac_votes_at_once(patch: pytest.MonkeyPatch) -> None:
    """A node that lost its quorum log has forgotten its votes and acknowledgements."""
    patch.setattr(OwnFiles, "has_lost_its_log", lambda self, *, is_used: False)
    patch.setattr(RaftNode, "abstain", lambda self: None)


def a_snapshot_with_a_wrong_bit_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        journal, "decode_snapshot_file", lambda data: decode_snapshot(memoryview(data), SNAPSHOT_HEAD_BYTES)[0]
    )


def a_voter_with_an_old_log_votes_at_once(patch: pytest.MonkeyPatch) -> None:
    """Together with one that was cut off it elects a leader that lacks committed entries."""
    patch.setattr(Probation, "allows", lambda self, end, others: True)


# Repair that does not come to an end


def mended_replicas_are_not_taken_back(patch: pytest.MonkeyPatch) -> None:
    """They hold everything, and stay out of the in-sync replicas."""
    caught_up = IsrChanges.caught_up

    def only_if_it_never_left(self: IsrChanges, replica: Replica, progress: FollowerProgress) -> None:
        if progress.broker_id not in getattr(replica, "once_left", ()):
            caught_up(self, replica, progress)

    change = Replica.change

    def remember(self: Replica, state: Partition) -> None:
        left = set(self.state.isr) - set(state.isr) if self.state is not None else set()
        self.__dict__.setdefault("once_left", set()).update(left)
        change(self, state)

    patch.setattr(IsrChanges, "caught_up", only_if_it_never_left)
    patch.setattr(Replica, "change", remember)


def damaged_replicas_wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    """The controller knows, the cluster does not rely on them, and they are never repaired."""

    def report_only(self: Replicas, key: Key, partition: Partition) -> None:
        self.losses.report(key)

    patch.setattr(Replicas, "_mend", report_only)


# A cluster that continues without a node


def laggards_stay_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IsrChanges, "_lags", lambda self, replica, broker_id, now_ns: False)


def replicas_without_space_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    """As followers they lag and leave in the end; as leaders they refuse whatever is sent."""
    patch.setattr(FullReplicas, "met", lambda self, key: None)


def silent_brokers_are_never_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerSessions, "expired", lambda self, now_ns: [])
    patch.setattr(ActiveController, "deaf", lambda self: set())


def a_hung_disk_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """Its node continues to lead, because heartbeats need no disk."""
    patch.setattr(HungDisk, "look", lambda self: False)
