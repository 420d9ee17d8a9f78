"""Assignment: the same as Kafka's for range and roundrobin, balanced and careful for cooperative-sticky."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.assignors import ASSIGNORS, Subscription, assignor_named
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from tests.oracle import client_oracle

Members = dict[str, Subscription]


def reads(*topics: str, static: str | None = None) -> Subscription:
    return Subscription(topics, instance_id=static)


# What RangeAssignor and RoundRobinAssignor of Kafka 4.3.1 answer.
FROM_JAVA: list[tuple[str, dict[str, int], Members, dict[str, str]]] = [
    (
        "range",
        {"a": 7},
        {"m1": reads("a"), "m2": reads("a"), "m3": reads("a")},
        {"m1": "a0 a1 a2", "m2": "a3 a4", "m3": "a5 a6"},
    ),
    ("range", {"a": 3, "b": 3}, {"m1": reads("a", "b"), "m2": reads("a", "b")}, {"m1": "a0 a1 b0 b1", "m2": "a2 b2"}),
    (
        "range",
        {"a": 2, "b": 3},
        {"m1": reads("a"), "m2": reads("a", "b"), "m3": reads("b")},
        {"m1": "a0", "m2": "a1 b0 b1", "m3": "b2"},
    ),
    (
        "range",
        {"a": 4},
        {"m1": reads("a"), "m2": reads("a", static="z"), "m3": reads("a", static="b")},
        {"m1": "a3", "m2": "a2", "m3": "a0 a1"},
    ),
    ("range", {"a": 1}, {"m1": reads("a", "gone"), "m2": reads("a")}, {"m1": "a0", "m2": ""}),
    (
        "roundrobin",
        {"a": 3, "b": 3},
        {"m1": reads("a", "b"), "m2": reads("a", "b")},
        {"m1": "a0 a2 b1", "m2": "a1 b0 b2"},
    ),
    (
        "roundrobin",
        {"a": 1, "b": 2, "c": 3},
        {"m1": reads("a"), "m2": reads("a", "b"), "m3": reads("a", "b", "c")},
        {"m1": "a0", "m2": "b0", "m3": "b1 c0 c1 c2"},
    ),
]


@pytest.mark.parametrize(("name", "counts", "members", "expected"), FROM_JAVA)
def test_the_result_is_that_of_javas_assignor(
    name: str, counts: dict[str, int], members: Members, expected: dict[str, str]
) -> None:
    """Members of one group may be different clients, so every leader must compute the same result."""
    assigned = ASSIGNORS[name].assign(counts, members)
    shown = {m: " ".join(f"{at.topic}{at.partition}" for at in sorted(each)) for m, each in assigned.items()}
    assert shown == expected


@pytest.mark.java
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_random_groups_are_assigned_as_java_does(name: str) -> None:
    """Tables can miss a case: hundreds of groups with uneven subscriptions and some static members."""
    chance = random.Random(7)
    groups = [random_group(chance) for _ in range(300)]
    answers = client_oracle.ask([client_oracle.assignment_question(name, *group) for group in groups])
    for (counts, members), answer in zip(groups, answers, strict=True):
        ours = {member_id: sorted(each) for member_id, each in ASSIGNORS[name].assign(counts, members).items()}
        assert ours == client_oracle.read_assignment(answer)


def random_group(chance: random.Random) -> tuple[dict[str, int], Members]:
    counts = {f"t{index}": chance.randrange(0, 9) for index in range(chance.randrange(1, 5))}
    members = {}
    for index in range(chance.randrange(1, 7)):
        topics = tuple(topic for topic in counts if chance.random() < 0.7) or (next(iter(counts)),)
        static = f"i{chance.randrange(100)}-{index}" if chance.random() < 0.3 else None
        members[f"m{chance.randrange(1000)}-{index}"] = Subscription(topics, instance_id=static)
    return counts, members


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, int], Members]:
    return random_group(random.Random(draw(st.integers(0, 2**32))))


@given(group=groups(), name=st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_that_somebody_wants_has_one_reader_who_wants_it(
    group: tuple[dict[str, int], Members], name: str
) -> None:
    """Two readers would double records, none would lose them."""
    counts, members = group
    assigned = ASSIGNORS[name].assign(counts, members)
    assert assigned.keys() == members.keys()
    flat = [at for partitions in assigned.values() for at in partitions]
    wanted = {topic for member in members.values() for topic in member.topics}
    assert sorted(flat) == [TopicPartition(t, i) for t in sorted(wanted) for i in range(counts.get(t, 0))]
    assert all(at.topic in members[member_id].topics for member_id, each in assigned.items() for at in each)


@given(
    counts=st.dictionaries(st.sampled_from("abc"), st.integers(1, 12), min_size=1),
    before=st.integers(1, 6),
    after=st.integers(1, 6),
)
def test_sticky_rounds_end_balanced_having_moved_no_more_than_needed(
    counts: dict[str, int], before: int, after: int
) -> None:
    """Members join and leave; the others keep their partitions, except for those needed for balance."""
    topics = tuple(sorted(counts))
    assignor = ASSIGNORS["cooperative-sticky"]
    owned = settle({f"m{index}": Subscription(topics) for index in range(before)}, counts)
    members = {f"m{index}": Subscription(topics, tuple(owned.get(f"m{index}", ()))) for index in range(after)}
    first = assignor.assign(counts, members)
    # No partition is assigned to a member while another one still owns it.
    for member_id, partitions in first.items():
        for other, had in owned.items():
            if other != member_id and other in members:
                assert not set(partitions) & set(had)
    settled = settle(members, counts)
    sizes = [len(partitions) for partitions in settled.values()]
    assert max(sizes) - min(sizes) <= 1
    total = sum(counts.values())
    kept = sum(len(set(settled[m]) & set(owned[m])) for m in settled if m in owned)
    # A remaining member can keep at most the larger half of an even share.
    most = sum(min(len(owned[m]), -(-total // after)) for m in members if m in owned)
    assert kept >= most - after


def settle(members: Members, counts: dict[str, int]) -> dict[str, list[TopicPartition]]:
    """Repeats rounds until no member must revoke anything, as members do."""
    for generation in range(5):
        assigned = ASSIGNORS["cooperative-sticky"].assign(counts, members)
        let_go = any(set(members[m].owned) - set(assigned[m]) for m in members)
        members = {m: each._replace(owned=tuple(assigned[m]), generation=generation) for m, each in members.items()}
        if not let_go:
            return assigned
    raise AssertionError("the group never settles")


def test_of_two_who_claim_a_partition_the_later_generation_has_it() -> None:
    """A member that was away still claims partitions that others got meanwhile."""
    a0 = TopicPartition("a", 0)
    members = {"m1": Subscription(("a",), (a0,), generation=3), "m2": Subscription(("a",), (a0,), generation=5)}
    assert ASSIGNORS["cooperative-sticky"].assign({"a": 1}, members) == {"m1": [], "m2": [a0]}


def test_an_unknown_assignor_is_answered_with_those_there_are() -> None:
    """The user wrote the name; the list is short."""
    with pytest.raises(ClientError, match="range, roundrobin, cooperative-sticky"):
        assignor_named("rang")
