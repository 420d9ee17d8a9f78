"""Invalid metadata states, created on purpose. Invalid records are in test_replay."""

from __future__ import annotations

import pytest

from chronik.metadata.image import Image, Partition
from chronik.metadata.image_invariants import check_image
from chronik.metadata.leases import FollowerLease, Grants
from chronik.metadata.sessions import BrokerSessions
from chronik.metadata.snapshot import decode_snapshot, encode_snapshot
from chronik.runtime.invariants import InvariantBroken
from tests.metadata.clusters import cluster, create, new_topic, topic_id

ID = topic_id("t")
GOOD = Partition(leader=1, leader_epoch=1, partition_epoch=2, replicas=(1, 2), isr=(1, 2))


def image_with(partition: Partition) -> Image:
    made = cluster(2)
    create(made, new_topic("t", replication_factor=2))
    image = decode_snapshot(encode_snapshot(made.image))
    topic = image.topics[ID]._replace(partitions=(partition,))
    image.topics = image.topics.set(ID, topic)
    image.topics_by_name = image.topics_by_name.set("t", topic)
    return image


BROKEN = {
    "no replicas": ("29 a partition's replicas", GOOD._replace(replicas=(), isr=(), leader=-1)),
    "a replica twice": ("29 a partition's replicas", GOOD._replace(replicas=(1, 1))),
    "a leader outside its ISR": ("11 a leader is in its ISR", GOOD._replace(isr=(2,))),
    "an ISR of strangers": ("29 the ISR", GOOD._replace(isr=(1, 3))),
    "a member twice": ("11 a replica stands", GOOD._replace(isr=(1, 1))),
    "more leaders than changes": ("11 a leader epoch", GOOD._replace(leader_epoch=3)),
    "a stranger comes": ("29 only a replica", GOOD._replace(adding=(9,))),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_image_that_cannot_be_is_not_shown(what: str) -> None:
    promise, partition = BROKEN[what]
    base = image_with(GOOD._replace(partition_epoch=0, leader_epoch=0))
    check_image(image_with(GOOD), base, [ID], has_touched_brokers=True)
    with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
        check_image(image_with(partition), base, [ID], has_touched_brokers=True)


def test_an_image_refers_to_what_is_there() -> None:
    base, image = image_with(GOOD._replace(partition_epoch=0, leader_epoch=0)), image_with(GOOD)
    image.topics_by_name = image.topics_by_name.delete("t")
    with pytest.raises(InvariantBroken, match="29 every topic is known by id and by name"):
        check_image(image, base, [ID], has_touched_brokers=False)
    image = image_with(GOOD)
    image.live_brokers = ()
    with pytest.raises(InvariantBroken, match="11 live brokers"):
        check_image(image, base, [], has_touched_brokers=False)
    image = image_with(GOOD)
    image.brokers = dict(reversed(image.brokers.items()))
    with pytest.raises(InvariantBroken, match="29 brokers are kept by their ids"):
        check_image(image, base, [], has_touched_brokers=True)
    with pytest.raises(InvariantBroken, match="11 a partition epoch never goes back"):
        check_image(base, image_with(GOOD), [ID], has_touched_brokers=False)


def test_leases_and_sessions_keep_their_books() -> None:
    grants = Grants(lease_ns=100, drift_permille=0)
    grants._lease_ns = 10**9
    assert grants.grant_ns(2, 0, 500) == 500, "no longer than the leader's own"
    lease = FollowerLease()
    lease._asked_ns[1] = 0
    with pytest.raises(InvariantBroken, match="6 each round asks for a lease of its own"):
        lease.ask(5)
    sessions = BrokerSessions(image_with(GOOD), timeout_ns=10, now_ns=0)
    sessions._heard.add(77)
    with pytest.raises(InvariantBroken, match="25 who was heard is watched"):
        sessions.watched()
