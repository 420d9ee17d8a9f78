"""The judge of histories, against a judge that tries every order."""

from __future__ import annotations

from itertools import chain, combinations, permutations
from random import Random

import pytest

from chronik.sim.checkers.linearizability import find_order, topic
from chronik.sim.history import OK, REFUSED, UNKNOWN, Operation


def op(kind: str, value: str | None, status: str, result: str | None, start: int, end: int | None) -> Operation:
    return Operation(start, "c", "n", kind, "t", value, start, end, status, result)


CASES = [
    ("a read behind a write sees it", [("create", "a", OK, None, 0, 1), ("read", None, OK, "a", 2, 3)], True),
    ("a read behind a write may not miss it", [("create", "a", OK, None, 0, 1), ("read", None, OK, None, 2, 3)], False),
    ("a read beside a write may miss it", [("create", "a", OK, None, 0, 9), ("read", None, OK, None, 2, 3)], True),
    (
        "what one saw another may not miss later",
        [("create", "a", OK, None, 0, 9), ("read", None, OK, "a", 2, 3), ("read", None, OK, None, 4, 5)],
        False,
    ),
    ("an open write may have happened", [("create", "a", UNKNOWN, None, 0, None), ("read", None, OK, "a", 5, 6)], True),
    ("an open write need not have", [("create", "a", UNKNOWN, None, 0, None), ("read", None, OK, None, 5, 6)], True),
    (
        "a write happens once",
        [
            ("create", "a", OK, None, 0, 1),
            ("delete", None, OK, None, 2, 3),
            ("read", None, OK, "a", 4, 5),
        ],
        False,
    ),
    ("nothing can be deleted that is not there", [("delete", None, OK, None, 0, 1)], False),
    ("a refusal says what is there", [("create", "a", OK, None, 0, 1), ("delete", None, REFUSED, None, 2, 3)], False),
]


@pytest.mark.parametrize(("history", "explained"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_histories_that_a_person_can_judge(history: list[tuple], explained: bool) -> None:
    assert (find_order([op(*each) for each in history], topic, None) is not None) is explained


def by_trying_everything(operations: list[Operation]) -> bool:
    answered = [each for each in operations if each.returned_ns is not None]
    open_ones = [each for each in operations if each.returned_ns is None]
    subsets = chain.from_iterable(combinations(open_ones, count) for count in range(len(open_ones) + 1))
    return any(_some_order([*answered, *chosen]) for chosen in subsets)


def _some_order(operations: list[Operation]) -> bool:
    for order in permutations(operations):
        in_time = all(
            later.returned_ns is None or earlier.invoked_ns <= later.returned_ns
            for at, earlier in enumerate(order)
            for later in order[at + 1 :]
        )
        states: set[str | None] = {None}
        for each in order if in_time else ():
            states = {after for state in states for after in topic(state, each)}
        if in_time and states:
            return True
    return False


def test_it_agrees_with_trying_every_order() -> None:
    """On small random histories, half of them made by a real machine and then perhaps spoiled."""
    random = Random(7)
    verdicts = {True: 0, False: 0}
    for _ in range(1500):
        operations = [_random_operation(random) for _ in range(random.randint(1, 5))]
        expected = by_trying_everything(operations)
        order = find_order(operations, topic, None)
        assert (order is not None) is expected, list(map(str, operations))
        if order is not None:
            assert _some_order(order)
        verdicts[expected] += 1
    assert min(verdicts.values()) > 200, "the histories must not all be judged alike"


def _random_operation(random: Random) -> Operation:
    kind = random.choice(("create", "delete", "set", "read"))
    start = random.randrange(20)
    value = None if kind in ("read", "delete") else random.choice("abcd")  # c and d are never read
    status = OK if kind == "read" else random.choice((OK, OK, REFUSED, UNKNOWN))
    end = None if status == UNKNOWN else start + random.randrange(12)
    return op(kind, value, status, random.choice((None, "a", "b")) if kind == "read" else None, start, end)


def test_many_open_writes_do_not_entangle_it() -> None:
    """A slow machine leaves dozens of requests without an answer; all orders of them cannot be tried."""
    history = [
        op(kind, f"{kind}-{n}", UNKNOWN, None, n, None) for n in range(40) for kind in ("create", "delete", "set")
    ]
    answers = [op("read", None, OK, None, 100 + 10 * n, 101 + 10 * n) for n in range(20)]
    assert find_order([*history, *answers], topic, None) is not None
    spoilt = op("read", None, OK, "never written", 500, 501)
    assert find_order([*history, *answers, spoilt], topic, None) is None
    seen_again = [op("read", None, OK, "create-7", 300, 301), op("delete", None, OK, None, 302, 303)]
    seen_again.append(op("read", None, OK, "create-7", 304, 305))
    assert find_order([*history, *seen_again], topic, None) is None, "one create cannot happen twice"
