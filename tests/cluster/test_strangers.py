"""Strangers at the quorum's ports of a running cluster: what they forge is not done, also not after a restart."""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest

from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.forwarding import _HEAD, _REQUEST, ASK, NUMBER_OF
from chronik.raft.codec import NUMBER_MAX, encode_message
from chronik.raft.framing import NOTE, Hello, frame
from chronik.raft.messages import Message, MessageKind
from chronik.testing import Cluster
from chronik.wire.compiler import encode
from tests.cluster.asking import Asked

pytestmark = pytest.mark.slow
STRANGER = 77
WITHOUT_SECRET = {"chronik.quorum.secret.file": ""}


class Forger:
    """One connection to a node's quorum port."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        voters = dict(voter.split("@") for voter in cluster.settings[0]["controller.quorum.voters"].split(","))
        host, _, port = voters[str(node_id)].partition(":")
        self.node_id = node_id
        self._socket = socket.create_connection((host, int(port)), timeout=20)

    def greet(self, sender: int, cluster_id: str) -> bytes:
        """What the node says to that; empty when it closes the connection."""
        self.send(Hello(sender, self.node_id, cluster_id).encode())
        with contextlib.suppress(ConnectionResetError):
            head = self._socket.recv(8, socket.MSG_WAITALL)
            if len(head) == 8:
                return self._socket.recv(struct.unpack(">I", head[:4])[0], socket.MSG_WAITALL)
        return b""

    def send(self, body: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(frame(body))

    def wait_closed(self) -> None:
        """Until the node has read everything before, and closed."""
        self.send(b"no message")
        with contextlib.suppress(OSError):
            while self._socket.recv(4096):
                pass
        self._socket.close()


def forged_deletion(sender: int) -> bytes:
    command = DeleteTopics(topics=[TopicName(name="kept")])
    request = _REQUEST.pack(*RequestId(sender, 1 << 40, 1, 0), NUMBER_OF[DeleteTopics])
    return NOTE + _HEAD.pack(ASK, 1) + request + encode(command, 0)


def topics_of(cluster: Cluster, node_id: int = 1) -> list[str]:
    asked = Asked(cluster, node_id)
    try:
        return sorted(topic.name or "" for topic in asked.metadata().topics)
    finally:
        asked.close()


def create(cluster: Cluster, name: str) -> int:
    asked = Asked(cluster, 1)
    try:
        return asked.create(name)[name]
    finally:
        asked.close()


def cluster_id_of(cluster: Cluster) -> str:
    asked = Asked(cluster, 1)
    try:
        return asked.metadata().cluster_id or ""
    finally:
        asked.close()


def test_a_stranger_deletes_nothing_and_is_told_nothing() -> None:
    """Also one that knows the cluster's id, as every client does."""
    with Cluster(nodes=3, settings=WITHOUT_SECRET) as cluster:
        assert create(cluster, "kept") == 0
        cluster_id = cluster_id_of(cluster)
        for node_id in (1, 2, 3):
            assert Forger(cluster, node_id).greet(STRANGER, "") == b""
            guest = Forger(cluster, node_id)
            assert Hello.decode(guest.greet(STRANGER, cluster_id)).sender == node_id
            guest.send(forged_deletion(STRANGER))
            guest.send(forged_deletion(1 if node_id != 1 else 2))
            guest.send(encode_message(Message(MessageKind.HEARTBEAT, node_id, STRANGER, NUMBER_MAX - 1)))
            guest._socket.close()
        assert create(cluster, "after") == 0
        assert topics_of(cluster) == ["after", "kept"]


def test_forged_terms_do_not_end_a_cluster() -> None:
    """From somebody who claims to be a member, where no secret stops that; nor do they after a restart."""
    with Cluster(nodes=3, settings=WITHOUT_SECRET) as cluster:
        assert create(cluster, "kept") == 0
        cluster_id = cluster_id_of(cluster)
        for node_id in (1, 2, 3):
            for sender in {1, 2, 3} - {node_id}:
                forger = Forger(cluster, node_id)
                assert forger.greet(sender, cluster_id)
                for kind in (MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.VOTE):
                    forger.send(encode_message(Message(kind, node_id, sender, NUMBER_MAX - 1)))
                forger.wait_closed()
        assert create(cluster, "after") == 0
        for node_id in (1, 2, 3):
            cluster.stop(node_id)
        cluster.start_all_again()
        assert create(cluster, "later") == 0
        assert topics_of(cluster) == ["after", "kept", "later"]


def test_with_a_secret_a_members_id_is_worth_nothing() -> None:
    with Cluster(nodes=3) as cluster:
        assert create(cluster, "kept") == 0
        cluster_id = cluster_id_of(cluster)
        for node_id in (1, 2, 3):
            forger = Forger(cluster, node_id)
            challenge = forger.greet(node_id % 3 + 1, cluster_id)
            assert cluster_id.encode() not in challenge
            forger.send(forged_deletion(node_id % 3 + 1))
            forger.wait_closed()
        assert create(cluster, "after") == 0
        assert topics_of(cluster) == ["after", "kept"]
