"""How a member reaches its target: it revokes first, and gets no partition that another member still has."""

from __future__ import annotations

from typing import Any

from chronik.coordinator.groups.consumer.member import Member, MemberState, Owned
from chronik.coordinator.groups.consumer.reconciling import is_part_of, reconcile
from chronik.wire.messages.consumer_group_heartbeat import TopicPartitions

T, U = b"t" * 16, b"u" * 16


def owned(partitions: dict[int, int], topic: bytes = T) -> Owned:
    return {topic: partitions}


def named(*partitions: int, topic: bytes = T) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic, partitions=list(partitions))]


def go(member: Member, epoch: int, target: set[int], **more: Any) -> Member:
    held = more.pop("held", ())
    settings: dict[str, Any] = {"subscribed": lambda: {T}, "named": None, **more}
    return reconcile(
        member, epoch, {T: frozenset(target)}, is_held=lambda topic, partition: partition in held, **settings
    )


STABLE = Member("m", member_epoch=1, previous_epoch=0, assigned=owned({0: 1, 1: 1}))


def test_what_the_target_takes_away_is_given_up_before_the_epoch_rises() -> None:
    after = go(STABLE, 2, {0, 2})
    assert (after.state, after.member_epoch) == (MemberState.UNREVOKED, 1)
    assert (after.assigned, after.revoking) == (owned({0: 1}), owned({1: 1}))
    assert go(after, 2, {0, 2}) is after, "silence is no promise"
    assert go(after, 2, {0, 2}, named=named(0, 1)) is after
    done = go(after, 2, {0, 2}, named=named(0))
    assert (done.state, done.member_epoch, done.previous_epoch) == (MemberState.STABLE, 2, 1)
    assert (done.assigned, done.revoking) == (owned({0: 1, 2: 2}), {}), "each partition has the epoch it came with"


def test_what_others_have_is_waited_for() -> None:
    after = go(STABLE, 2, {0, 1, 2, 3}, held={2})
    assert (after.state, after.member_epoch) == (MemberState.UNRELEASED, 2)
    assert after.assigned == owned({0: 1, 1: 1, 3: 2})
    free = go(after, 2, {0, 1, 2, 3})
    assert (free.state, free.assigned) == (MemberState.STABLE, owned({0: 1, 1: 1, 2: 2, 3: 2}))


def test_what_the_member_itself_gives_up_is_not_waited_for() -> None:
    """The target may give back what an earlier one took."""
    giving = STABLE._replace(state=MemberState.UNREVOKED, assigned=owned({0: 1}), revoking=owned({1: 1}))
    after = go(giving, 3, {0, 1}, named=named(0), held={1})
    assert (after.state, after.assigned) == (MemberState.STABLE, owned({0: 1, 1: 3}))


def test_what_the_client_has_given_up_already_is_not_asked_for() -> None:
    after = go(STABLE, 2, {0}, named=named(0))
    assert (after.state, after.member_epoch, after.assigned) == (MemberState.STABLE, 2, owned({0: 1}))


def test_a_topic_that_is_not_subscribed_to_any_longer_is_given_up_at_once() -> None:
    """Without waiting for a target that says so."""
    both = STABLE._replace(assigned={**owned({0: 1}), **owned({5: 1}, U)})
    after = go(both, 1, {0}, subscription_changed=True)
    assert (after.state, after.assigned, after.revoking) == (MemberState.UNREVOKED, owned({0: 1}), owned({5: 1}, U))
    gone = go(both, 1, {0}, subscription_changed=True, named=named(0))
    assert (gone.state, gone.assigned, gone.revoking) == (MemberState.STABLE, owned({0: 1}), {})


def test_a_stable_member_stays_as_it_is() -> None:
    assert go(STABLE, 1, {0, 1}) is STABLE
    assert go(STABLE, 1, {0, 1}, subscription_changed=True) is STABLE


def test_a_lost_answer_is_told_apart_from_lost_partitions() -> None:
    assert is_part_of(named(0, 1), STABLE.assigned)
    assert is_part_of([], STABLE.assigned)
    assert not is_part_of(named(2), STABLE.assigned)
    assert not is_part_of(named(0, topic=U), STABLE.assigned)
    assert not is_part_of(None, STABLE.assigned), "a client that says nothing may have anything"
