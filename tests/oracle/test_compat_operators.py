"""What operators ask of a cluster, as far as one node can answer it: the quorum, elections, moves, features."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.wire.messages.add_raft_voter import AddRaftVoterRequest
from chronik.wire.messages.add_raft_voter import Listener as VoterListener
from chronik.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from chronik.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from chronik.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from chronik.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from chronik.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from chronik.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from chronik.wire.messages.unregister_broker import UnregisterBrokerRequest
from chronik.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from chronik.wire.notation import ZERO_UUID
from tests.oracle.asking import create_topic
from tests.oracle.comparison import Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

# Both count their own entries, at their own times.
PROGRESS = (
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "replica_directory_id",
)


def quorum(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopic(
                topic_name=name, partitions=[DescribeQuorumRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ]
    )


def test_the_quorum_is_described(pair: Pair) -> None:
    """Kafka's own tool for the quorum reads this. A node alone has no listener for voters, so that is not compared."""
    for version in pair.versions(DescribeQuorumRequest):
        pair.ask(quorum(("__cluster_metadata", [0])), version, erased=(*PROGRESS, "nodes"))
        for asked in ([("nope", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0, 1])], []):
            pair.ask(quorum(*asked), version, erased=("nodes",))


def test_voters_that_cannot_come_or_go(pair: Pair) -> None:
    """Errors in the request itself; a Kafka with a fixed list of voters changes none."""
    listener = VoterListener(name="CONTROLLER", host="127.0.0.1", port=1)
    for version in pair.versions(AddRaftVoterRequest):

        def add(version: int = version, **more: Any) -> AddRaftVoterRequest:
            fields = {"cluster_id": None, "voter_id": 7, "listeners": [listener], **more}
            return AddRaftVoterRequest(timeout_ms=100, voter_directory_id=ZERO_UUID[:-1] + b"\1", **fields)

        pair.ask(add(cluster_id="another"), version)
        pair.ask(add(listeners=[]), version)
    for version in pair.versions(RemoveRaftVoterRequest):
        other = RemoveRaftVoterRequest(cluster_id="another", voter_id=7, voter_directory_id=ZERO_UUID)
        pair.ask(other, version)


def elections(version: int, kind: int, *topics: tuple[str, list[int]]) -> ElectLeadersRequest:
    more = {"election_type": kind} if version >= 1 else {}
    named = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics]
    return ElectLeadersRequest(topic_partitions=named, **more)


def test_elections(pair: Pair) -> None:
    """With one broker every leader is the right one already."""
    name = create_topic(pair, pair.name(), 2)
    for version in pair.versions(ElectLeadersRequest):
        for kind in (0, 1) if version >= 1 else (0,):
            pair.ask(elections(version, kind, (name, [0, 1])), version)
            pair.ask(elections(version, kind, (name, [9])), version)
            pair.ask(elections(version, kind, (pair.name("unknown"), [0])), version)
            pair.ask(elections(version, kind), version)
            everything = elections(version, kind)
            everything.topic_partitions = None
            pair.ask(everything, version, unordered=("replica_election_results",))


def moves(*topics: tuple[str, int, list[int] | None], **more: bool) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
            for name, index, replicas in topics
        ],
        **more,
    )


def test_moves_of_replicas(pair: Pair) -> None:
    """To where they are, to nowhere, to brokers that are not there; and none is under way afterwards."""
    name = create_topic(pair, pair.name(), 2)
    for version in pair.versions(AlterPartitionReassignmentsRequest):
        for replicas in ([1], None, [], [7], [1, 7], [1, 1], [-1]):
            pair.case = f"to {replicas}"
            pair.ask(moves((name, 0, replicas)), version)
            pair.ask(moves((name, 9, replicas)), version)
            pair.ask(moves((pair.name("unknown"), 0, replicas)), version)
        pair.case = ""
        pair.ask(moves(), version)
        pair.ask(moves((name, 0, [1]), (pair.name("unknown"), 0, [1])), version)
        if version >= 1:
            pair.ask(moves((name, 0, [1]), allow_replication_factor_change=False), version)
    for version in pair.versions(ListPartitionReassignmentsRequest):
        pair.ask(ListPartitionReassignmentsRequest(topics=None), version)
        for asked in (name, pair.name("unknown")):
            one = ListPartitionReassignmentsTopics(name=asked, partition_indexes=[0, 9])
            pair.ask(ListPartitionReassignmentsRequest(topics=[one]), version)


def test_log_directories(pair: Pair) -> None:
    """The one that there is, and one that there is not."""
    name = create_topic(pair, pair.name())
    for server, answer in zip(pair.servers, pair.do(DescribeLogDirsRequest(topics=None), 4), strict=True):
        server.kept["log_dir"] = answer.results[0].log_dir
    for version in pair.versions(AlterReplicaLogDirsRequest):

        def move(path: str | None, topic: str, index: int) -> Any:
            def asked(server: Server) -> AlterReplicaLogDirsRequest:
                named = AlterReplicaLogDirTopic(name=topic, partitions=[index])
                return AlterReplicaLogDirsRequest(
                    dirs=[AlterReplicaLogDir(path=path or server.kept["log_dir"], topics=[named])]
                )

            return asked

        pair.ask(move(None, name, 0), version)
        pair.ask(move("/nowhere", name, 0), version)
        pair.ask(move("/nowhere", pair.name("unknown"), 0), version)


def test_brokers_that_are_not_there(pair: Pair) -> None:
    for version in pair.versions(UnregisterBrokerRequest):
        for broker_id in (7, -1):
            pair.ask(UnregisterBrokerRequest(broker_id=broker_id), version)


def test_features(pair: Pair) -> None:
    """What no cluster can agree to, and a request for nothing."""
    for version in pair.versions(UpdateFeaturesRequest):
        for name, level in (("no.such.feature", 1), ("metadata.version", 999), ("group.version", 99)):
            pair.case = f"{name}={level}"
            update = FeatureUpdateKey(feature=name, max_version_level=level)
            pair.ask(UpdateFeaturesRequest(feature_updates=[update]), version)
        pair.ask(UpdateFeaturesRequest(feature_updates=[]), version)
