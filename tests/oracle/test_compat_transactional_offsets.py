"""Offsets that are committed in transactions: permissions, visibility, and the effect of later commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.oracle.asking import create_topic, find_coordinator
from tests.oracle.comparison import Pair, Server
from tests.oracle.test_compat_committed import ANY_ORDER, commit, committed
from tests.oracle.test_compat_groups import JOIN_SETUP, SYNC_SETUP, enter, member, sync
from tests.oracle.transacting import (
    CLAIMS,
    OLDER,
    OTHER_ID,
    PRESENT,
    VERSION_BUMP,
    Claim,
    add_offsets,
    begin_transactions,
    describe,
    end,
    init,
    keep,
    producer,
    settle,
)

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

VERSION_MEMBERS = 3  # of TxnOffsetCommit: it names the member that commits
VERSION_ADDS = 5  # of TxnOffsetCommit: it adds the group to the transaction
VERSION_STABLE = 7  # of OffsetFetch


def commit_in(
    who: str,
    group: str,
    topics: dict[str, dict[int, tuple[int, str | None]]],
    claim: Claim = PRESENT,
    *,
    by: str = "",
    generation: int = -1,
    instance: str | None = None,
) -> Callable[[Server], TxnOffsetCommitRequest]:
    def request(server: Server) -> TxnOffsetCommitRequest:
        producer_id, epoch = producer(server, who, claim)
        return TxnOffsetCommitRequest(
            transactional_id=who,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member(server, by),
            group_instance_id=instance,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=text
                        )
                        for index, (offset, text) in offsets.items()
                    ],
                )
                for name, offsets in topics.items()
            ],
        )

    return request


class Script:
    """One producer, one group, one topic of three partitions, at one version of TxnOffsetCommit."""

    def __init__(self, pair: Pair, version: int, name: str = "") -> None:
        self.pair, self.version = pair, version
        self.topic = create_topic(pair, pair.name(f"t{name}{version}"), 3)
        self.group = pair.name(f"g{name}{version}")
        self.who = pair.name(f"p{name}{version}")
        keep(pair, self.who, pair.ask(init(self.who), 4))
        self.end_version = VERSION_BUMP if version >= VERSION_ADDS else 3

    def add(self) -> None:
        if self.version < VERSION_ADDS:
            self.pair.ask(add_offsets(self.who, self.group), 3)

    def commit(self, offsets: dict[int, tuple[int, str | None]], claim: Claim = PRESENT, **more: Any) -> None:
        asked = commit_in(self.who, self.group, {self.topic: offsets}, claim, **more)
        self.pair.ask(asked, self.version, unordered=ANY_ORDER)

    def end(self, commits: bool) -> None:
        keep(self.pair, self.who, self.pair.ask(end(self.who, commits), self.end_version))
        settle(self.pair, self.who)

    def look(self, version: int = 8) -> None:
        for stable in (False, True):
            for topics in ({self.topic: [0, 1, 2]}, None):
                asked = committed(version, self.group, topics, stable=stable)
                self.pair.ask(asked, version, unordered=ANY_ORDER)


def begin(pair: Pair) -> None:
    find_coordinator(pair)
    begin_transactions(pair)


def test_offsets_of_a_transaction(pair: Pair) -> None:
    """They are invisible before the commit, readers of stable offsets wait, and an abort drops them."""
    begin(pair)
    for version in pair.served(TxnOffsetCommitRequest):
        script = Script(pair, version)
        pair.case = "not added"
        script.commit({0: (5, "note")})
        script.look()
        script.add()
        pair.case = "added"
        script.commit({0: (6, "note"), 2: (7, "")})
        script.commit({0: (8, None)})
        script.look()
        pair.ask(describe(script.who), 0, unordered=ANY_ORDER)
        script.end(True)
        script.look()
        pair.case = "second transaction"
        script.commit({0: (9, "")})
        script.look()
        script.add()
        script.commit({0: (10, ""), 1: (11, "")})
        script.look()
        script.end(False)
        script.look()


def test_stable_offsets_in_every_version(pair: Pair) -> None:
    """require_stable by its versions, of partitions with and without pending offsets."""
    begin(pair)
    version = max(pair.served(TxnOffsetCommitRequest))
    script = Script(pair, version)
    pair.ask(commit(7, script.group, {script.topic: {1: (3, -1, "")}}), 7)
    script.add()
    script.commit({0: (6, "note")})
    for fetching in pair.served(OffsetFetchRequest):
        if fetching >= VERSION_STABLE:
            pair.case = f"v{fetching}"
            script.look(fetching)
    script.end(True)
    for fetching in pair.served(OffsetFetchRequest):
        if fetching >= VERSION_STABLE:
            script.look(fetching)


def test_commits_beside_a_transaction(pair: Pair) -> None:
    """A plain commit that is newer than the pending one stays; deleting an offset deletes the pending one."""
    begin(pair)
    for version in pair.served(TxnOffsetCommitRequest)[-2:]:
        script = Script(pair, version)
        script.add()
        script.commit({0: (6, "pending"), 1: (6, "pending"), 2: (6, "pending")})
        pair.ask(commit(7, script.group, {script.topic: {0: (20, -1, "plain")}}), 7)
        gone = [OffsetDeleteRequestPartition(partition_index=1)]
        topics = [OffsetDeleteRequestTopic(name=script.topic, partitions=gone)]
        pair.ask(OffsetDeleteRequest(group_id=script.group, topics=topics), 0)
        script.look()
        script.end(True)
        script.look()
        pair.ask(commit(7, script.group, {script.topic: {2: (21, -1, "plain")}}), 7)
        script.look()


def test_deleting_a_group_with_pending_offsets(pair: Pair) -> None:
    """The group goes with its pending offsets; the marker finds nothing."""
    begin(pair)
    for version in pair.served(TxnOffsetCommitRequest)[-2:]:
        script = Script(pair, version)
        script.add()
        script.commit({0: (6, "pending")})
        pair.ask(DeleteGroupsRequest(groups_names=[script.group]), 2)
        script.look()
        script.end(True)
        script.look()


def test_commits_of_strangers(pair: Pair) -> None:
    """Other epochs and ids, in and outside of a transaction; names that are no group's; topics that are not there."""
    begin(pair)
    for version in pair.served(TxnOffsetCommitRequest):
        script = Script(pair, version)
        for is_open in (False, True):
            if is_open:
                script.add()
                script.commit({1: (1, "")})
            for claim, values in CLAIMS.items():
                # The older Kafka takes a later epoch, after which its own marker is too old: the transaction hangs.
                is_judged = pair.release != OLDER or not is_open or values == OTHER_ID
                if values != PRESENT and is_judged:
                    pair.case = f"{claim}, open {is_open}"
                    script.commit({0: (5, "")}, values)
            nobody = commit_in(pair.name(f"nobody {version}"), script.group, {script.topic: {0: (5, "")}})
            pair.case = f"unknown transactional id, open {is_open}"
            pair.ask(nobody, version)
        pair.case = "bad requests"
        pair.ask(commit_in(script.who, "", {script.topic: {0: (5, "")}}), version)
        pair.ask(commit_in("", script.group, {script.topic: {0: (5, "")}}), version)
        unknown = {script.topic: {0: (5, ""), 9: (5, "")}, pair.name("unknown"): {0: (1, "")}}
        pair.ask(commit_in(script.who, script.group, unknown), version, unordered=ANY_ORDER)
        pair.ask(commit_in(script.who, script.group, {}), version)
        script.commit({0: (5, "x" * 5000), 1: (6, "")})
        script.commit({2: (-1, "")})
        script.look()
        script.end(True)
        script.look()


def test_commits_of_members(pair: Pair) -> None:
    """A member of the generation may commit, others may not; without a member's name it is always accepted."""
    begin(pair)
    for version in pair.served(TxnOffsetCommitRequest):
        script = Script(pair, version)
        script.add()
        if version >= VERSION_MEMBERS and pair.release != OLDER:  # the older Kafka answers UNKNOWN_MEMBER_ID
            pair.case = "no such group"
            script.commit({0: (1, "")}, by="stranger", generation=1)
            script.commit({0: (2, "")}, generation=1)
            script.commit({0: (3, "")}, by="stranger")
        enter(pair, script.group, "a", JOIN_SETUP)
        pair.case = "while it rebalances"
        script.commit({0: (4, "")})
        if version >= VERSION_MEMBERS:
            script.commit({0: (4, "")}, by="a", generation=1)
        pair.do(sync(script.group, "a", 1, {"a": b"x"}), SYNC_SETUP)
        pair.case = "stable"
        script.commit({0: (5, "")})
        if version >= VERSION_MEMBERS:
            for by, generation, instance in (
                ("a", 1, None),
                ("a", 0, None),
                ("a", 2, None),
                ("a", -1, None),
                ("stranger", 1, None),
                ("", 1, None),
                ("a", 1, "static"),
                ("", -1, "static"),
            ):
                pair.case = f"{by} {generation} {instance}"
                script.commit({0: (6, "")}, by=by, generation=generation, instance=instance)
        script.look()
        script.end(True)
        script.look()


def test_adding_offsets(pair: Pair) -> None:
    """AddOffsetsToTxn of names that are no group's, and of no transactional id."""
    begin(pair)
    for version in pair.served(AddOffsetsToTxnRequest):
        who = pair.name(f"p{version}")
        keep(pair, who, pair.ask(init(who), 4))
        pair.ask(add_offsets(who, ""), version)
        pair.ask(describe(who), 0)
        pair.ask(add_offsets("", "g"), version)
        pair.ask(add_offsets(who, "g"), version)
        pair.ask(add_offsets(who, "g"), version)
        pair.ask(describe(who), 0, unordered=("topics", "partitions"))
