"""Each anomaly in a history of transactions is found and described, and nothing else is; with hand-written
histories."""

from __future__ import annotations

from random import Random

import pytest

from chronik.sim.checkers.anomalies import (
    ALLOWED,
    Anomaly,
    Kind,
    Outcome,
    Poll,
    Seen,
    Transacted,
    TransactionHistory,
    anomalies,
    every_anomaly,
)
from chronik.sim.checkers.cycles import Edge, components, cycles, graph_of

COMMITTED, ABORTED, UNKNOWN = Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN
P, Q = "p", "q"


def poll(*records: tuple[str, int, str], begins: int | None = None, returned: int | None = None) -> Poll:
    partitions = {partition for partition, _, _ in records}
    return Poll(
        "reader",
        [Seen(*record) for record in records],
        None if begins is None else dict.fromkeys(partitions, begins),
        returned,
    )


def history(*transactions: Transacted, polls: list[Poll] | None = None, **logs: dict[int, str]) -> TransactionHistory:
    return TransactionHistory(transactions, logs, polls or [])


SOUND = {
    "all of it is there, in both partitions": history(
        Transacted("A", COMMITTED, ["a1", "a2", "a3"]), p={0: "a1", 1: "a3"}, q={7: "a2"}
    ),
    "nothing of an aborted one": history(Transacted("A", ABORTED, ["a1"]), p={}),
    "an unknown one counts": history(Transacted("A", UNKNOWN, ["a1", "a2"]), p={0: "a1", 4: "a2"}),
    "an unknown one does not count": history(Transacted("A", UNKNOWN, ["a1", "a2"]), p={}),
    "a poll that leaves out markers and aborted records": history(
        Transacted("A", COMMITTED, ["a1", "a2"]),
        polls=[poll((P, 3, "a1"), (P, 9, "a2"), begins=0)],
        p={3: "a1", 9: "a2"},
    ),
    "polls of a group's member skip and go back between each other": history(
        Transacted("A", COMMITTED, ["a1", "a2", "a3"]),
        polls=[poll((P, 2, "a3")), poll((P, 0, "a1"))],
        p={0: "a1", 1: "a2", 2: "a3"},
    ),
    "one reads what the other wrote": history(
        Transacted("A", COMMITTED, ["a1"], commit_asked=5),
        Transacted("B", COMMITTED, ["b1"], [poll((P, 0, "a1"), returned=6)]),
        p={0: "a1"},
        q={0: "b1"},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_has_no_anomaly(name: str) -> None:
    assert list(every_anomaly(SOUND[name])) == []


BROKEN = {
    "an acknowledged record is gone": (
        history(Transacted("A", COMMITTED, ["a1"]), p={}),
        Anomaly(Kind.LOST, "A was acknowledged; ['a1'] cannot be read"),
    ),
    "a record stands twice": (
        history(Transacted("A", COMMITTED, ["a1"]), p={0: "a1", 5: "a1"}),
        Anomaly(Kind.DOUBLED, "'a1' stands at p@0 and p@5"),
    ),
    "a transaction counts in one partition only": (
        history(Transacted("A", UNKNOWN, ["a1", "a2"]), p={0: "a1"}, q={}),
        Anomaly(Kind.TORN, "of A ['a1'] can be read, ['a2'] cannot"),
    ),
    "records stand in another order": (
        history(Transacted("A", COMMITTED, ["a1", "a2"]), p={0: "a2", 1: "a1"}),
        Anomaly(Kind.OUT_OF_ORDER, "A sent 'a1' before 'a2'; they stand at 1 and 0 of p"),
    ),
    "an aborted record is there in the end": (
        history(Transacted("A", ABORTED, ["a1"]), p={3: "a1"}),
        Anomaly(Kind.ABORTED_READ, "A was aborted; 'a1' is at p@3"),
    ),
    "an aborted record was read once": (
        history(Transacted("A", ABORTED, ["a1"]), polls=[poll((P, 3, "a1"))], p={}),
        Anomaly(Kind.ABORTED_READ, "reader read 'a1' at p@3, of A, which was aborted"),
    ),
    "a record was read before anybody asked for the commit": (
        history(
            Transacted("A", COMMITTED, ["a1"], commit_asked=9), polls=[poll((P, 0, "a1"), returned=8)], p={0: "a1"}
        ),
        Anomaly(Kind.PRECOMMITTED_READ, "reader read 'a1' at p@0 before A asked for its commit"),
    ),
    "an offset held another record": (
        history(Transacted("A", COMMITTED, ["a1", "a2"]), polls=[poll((P, 1, "a1"))], p={0: "a1", 1: "a2"}),
        Anomaly(Kind.INCONSISTENT, "reader read 'a1' at p@1, where 'a2' stands in the end"),
    ),
    "a poll went back": (
        history(
            Transacted("A", COMMITTED, ["a1", "a2"]), polls=[poll((P, 1, "a2"), (P, 0, "a1"))], p={0: "a1", 1: "a2"}
        ),
        Anomaly(Kind.BACKWARDS, "reader read 'a1' at p@0 behind offset 1"),
    ),
    "a poll skipped a record": (
        history(
            Transacted("A", COMMITTED, ["a1", "a2", "a3"]),
            polls=[poll((P, 0, "a1"), (P, 2, "a3"))],
            p={0: "a1", 1: "a2", 2: "a3"},
        ),
        Anomaly(Kind.SKIPPED, "reader read 'a3' at p@2 and left out what is at [1]"),
    ),
    "a poll skipped the record that it was to begin with": (
        history(Transacted("A", COMMITTED, ["a1", "a2"]), polls=[poll((P, 1, "a2"), begins=0)], p={0: "a1", 1: "a2"}),
        Anomaly(Kind.SKIPPED, "reader read 'a2' at p@1 and left out what is at [0]"),
    ),
    "two transactions read each other's records": (
        history(
            Transacted("A", COMMITTED, ["a1"], [poll((Q, 0, "b1"))]),
            Transacted("B", COMMITTED, ["b1"], [poll((P, 0, "a1"))]),
            p={0: "a1"},
            q={0: "b1"},
        ),
        Anomaly(Kind.G1C, "B read 'a1' at p@0, which A wrote; A read 'b1' at q@0, which B wrote"),
    ),
    "the outcome of one of them is unknown, and its record is there": (
        history(
            Transacted("A", UNKNOWN, ["a1"], [poll((Q, 0, "b1"))]),
            Transacted("B", COMMITTED, ["b1"], [poll((P, 0, "a1"))]),
            p={0: "a1"},
            q={0: "b1"},
        ),
        Anomaly(Kind.G1C, "B read 'a1' at p@0, which A wrote; A read 'b1' at q@0, which B wrote"),
    ),
    "records of two transactions stand in two orders": (
        history(
            Transacted("A", COMMITTED, ["a1", "a2"]),
            Transacted("B", COMMITTED, ["b1", "b2"]),
            p={0: "a1", 1: "b1"},
            q={0: "b2", 1: "a2"},
        ),
        Anomaly(Kind.G0, "B wrote p@1 behind p@0 of A; A wrote q@1 behind q@0 of B"),
    ),
    "one reads the other, which stands behind it elsewhere": (
        history(
            Transacted("A", COMMITTED, ["a1", "a2"]),
            Transacted("B", COMMITTED, ["b1"], [poll((P, 0, "a1"))]),
            p={0: "a1"},
            q={0: "b1", 1: "a2"},
        ),
        Anomaly(Kind.G1C_WITH_WW, "B read 'a1' at p@0, which A wrote; A wrote q@1 behind q@0 of B"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_anomaly_is_found_and_told(name: str) -> None:
    made, expected = BROKEN[name]
    found = list(every_anomaly(made))
    assert expected in found
    assert anomalies(made) == [each for each in found if each.kind not in ALLOWED]


def test_every_kind_of_anomaly_has_a_history() -> None:
    assert {expected.kind for _, expected in BROKEN.values()} == set(Kind)


def test_what_kafka_does_not_promise_is_allowed() -> None:
    """Writers are not isolated from each other: a broker orders what arrives, in each partition by itself."""
    for made, expected in BROKEN.values():
        assert (expected.kind in ALLOWED) == (anomalies(made) == [])


def test_a_cycle_through_many_transactions_is_told_by_its_shortest_way() -> None:
    names = [f"t{number:03}" for number in range(300)]
    ring = [
        Edge(one, other, "wr", f"{other} read {one}") for one, other in zip(names, [*names[1:], names[0]], strict=True)
    ]
    assert len(cycles(graph_of(ring))[0]) == 300
    shortcut = Edge(names[2], names[0], "wr", "short")
    assert [edge.target for edge in cycles(graph_of([*ring, shortcut]))[0]] == [names[1], names[2], names[0]]


def test_a_chain_of_ten_thousand_has_no_cycle() -> None:
    """Without recursion: Python's stack would end long before."""
    chain = [Edge(str(number), str(number + 1), "wr", "") for number in range(10_000)]
    assert cycles(graph_of(chain)) == []


@pytest.mark.parametrize("seed", range(200))
def test_components_are_those_that_reach_each_other(seed: int) -> None:
    """Tarjan's algorithm against the definition, which is slow and obvious."""
    random = Random(seed)
    nodes = [str(number) for number in range(random.randint(1, 9))]
    edges = [Edge(random.choice(nodes), random.choice(nodes), "ww", "") for _ in range(random.randint(0, 20))]
    graph = graph_of(edges)

    def reached(start: str) -> set[str]:
        found, queue = {start}, [start]
        while queue:
            targets = {edge.target for edge in graph.get(queue.pop(), ())} - found
            found |= targets
            queue += targets
        return found

    expected = {
        frozenset(other for other in reached(node) if node in reached(other))
        for edge in graph.values()
        for node in {each for one in edge for each in (one.source, one.target)}
    }
    assert set(map(frozenset, components(graph))) == expected
    for cycle in cycles(graph):
        assert all(one.target == other.source for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
