"""Moves one member from its current assignment to its target: it revokes partitions first, then gets new ones.

    STABLE ---------> UNREVOKED    it must revoke partitions; its epoch stays
    any ------------> UNRELEASED   its epoch is the target's; it waits for partitions of other members
    any ------------> STABLE       it has reached its target

Pure functions. A partition belongs to a member while it is assigned or being revoked. No other member gets it before
this member has confirmed the revocation or is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from chronik.coordinator.groups.consumer.member import NOTHING_OWNED, Member, MemberState, Owned, Target


class OwnedTopic(Protocol):
    """A topic with partitions, as listed in a heartbeat."""

    topic_id: bytes
    partitions: list[int]


# The partitions that the client says it owns; None: the request does not say.
Named = Sequence[OwnedTopic] | None


def reconcile(
    member: Member,
    target_epoch: int,
    target: Target,
    *,
    subscribed: Callable[[], Collection[bytes]],
    is_held: Callable[[bytes, int], bool],
    named: Named,
    subscription_changed: bool = False,
) -> Member:
    """The member after this heartbeat. `subscribed` returns the ids of its topics; `is_held` says whether a member has
    a partition. A member that unsubscribes from a topic loses its partitions at once."""
    if member.state is MemberState.STABLE:
        if member.member_epoch != target_epoch:
            return _next(member, target_epoch, target, subscribed(), is_held, named)
        return _without_unsubscribed(member, subscribed(), named) if subscription_changed else member
    if member.state is MemberState.UNREVOKED and _still_has(named, member.revoking):
        return _without_unsubscribed(member, subscribed(), named) if subscription_changed else member
    return _next(member, target_epoch, target, subscribed(), is_held, named)


def is_part_of(named: Named, owned: Owned) -> bool:
    """Whether the client owns nothing but what is assigned to it. False if the request does not say."""
    if named is None:
        return False
    return all(each.topic_id in owned and owned[each.topic_id].keys() >= set(each.partitions) for each in named)


def _next(
    member: Member,
    target_epoch: int,
    target: Target,
    subscribed: Collection[bytes],
    is_held: Callable[[bytes, int], bool],
    named: Named,
) -> Member:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    free: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in target.keys() | member.assigned.keys():
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        own = member.revoking.get(topic_id, {})
        keeps = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        if keeps:
            kept[topic_id] = keeps
        if len(keeps) < len(has):
            revoking[topic_id] = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
        for partition in wanted - has.keys():
            if partition not in own and is_held(topic_id, partition):
                waits = True
            else:
                free.setdefault(topic_id, []).append(partition)
    if revoking and _still_has(named, revoking):
        return member._replace(
            state=MemberState.UNREVOKED, previous_epoch=member.member_epoch, assigned=kept, revoking=revoking
        )
    for topic_id, partitions in free.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target_epoch))
    return member._replace(
        state=MemberState.UNRELEASED if waits else MemberState.STABLE,
        previous_epoch=member.member_epoch,
        member_epoch=target_epoch,
        assigned=kept,
        revoking=NOTHING_OWNED,
    )


def _without_unsubscribed(member: Member, subscribed: Collection[bytes], named: Named) -> Member:
    gone = {topic_id: parts for topic_id, parts in member.assigned.items() if topic_id not in subscribed}
    if not gone:
        return member
    kept = {topic_id: parts for topic_id, parts in member.assigned.items() if topic_id in subscribed}
    revoking = {**member.revoking}
    for topic_id, parts in gone.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **parts}
    if _still_has(named, revoking):
        return member._replace(
            state=MemberState.UNREVOKED, previous_epoch=member.member_epoch, assigned=kept, revoking=revoking
        )
    return member._replace(previous_epoch=member.member_epoch, assigned=kept)


def _still_has(named: Named, revoking: Owned) -> bool:
    """If the request does not list partitions, the client may still own any of them, so the result is True."""
    if named is None:
        return True
    return any(
        partition in parts for each in named if (parts := revoking.get(each.topic_id)) for partition in each.partitions
    )
