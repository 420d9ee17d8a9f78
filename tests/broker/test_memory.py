"""The memory budget: granted in order, never twice, and given back whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.broker.memory import MemoryBudget


def test_a_frame_is_granted_while_there_is_room() -> None:
    budget = MemoryBudget(100)
    assert budget.take(60)
    assert not budget.take(41)
    assert budget.take(40)
    assert budget.used_bytes == 100


def test_a_frame_larger_than_the_budget_is_granted_when_nothing_else_is_held() -> None:
    """Or a large message could never be sent to a node with a small budget."""
    budget = MemoryBudget(100)
    assert budget.take(500)
    assert not budget.take(1)
    budget.give_back(500)
    assert budget.take(1)
    assert not budget.take(500)


def test_those_who_wait_are_granted_in_order_of_asking() -> None:
    """A small frame behind a large one would otherwise keep it waiting for ever."""
    budget, granted = MemoryBudget(100), list[str]()
    assert budget.take(50)
    assert budget.take(40)
    budget.wait(90, lambda: granted.append("large"))
    budget.wait(10, lambda: granted.append("small"))
    assert not budget.take(1), "nobody overtakes those who wait"
    budget.give_back(50)
    assert granted == []
    budget.give_back(40)
    assert granted == ["large", "small"]
    assert budget.used_bytes == 100


def test_two_who_wait_do_not_send_each_other_to_the_end_of_the_line() -> None:
    """With room for the first only, the first is granted, and giving back ends."""
    budget, granted = MemoryBudget(100), list[str]()
    assert budget.take(100)
    budget.wait(80, lambda: granted.append("first"))
    budget.wait(80, lambda: granted.append("second"))
    budget.give_back(100)
    assert granted == ["first"]
    assert budget.used_bytes == 80
    budget.give_back(80)
    assert granted == ["first", "second"]


def test_one_who_is_gone_lets_those_behind_it_pass() -> None:
    budget, granted = MemoryBudget(100), list[str]()

    def never() -> None:
        granted.append("gone")

    assert budget.take(50)
    budget.wait(90, never)
    budget.wait(50, lambda: granted.append("behind"))
    budget.forget(never)
    assert granted == ["behind"]
    budget.give_back(50)
    assert granted == ["behind"]


@given(st.lists(st.tuples(st.sampled_from(["ask", "return", "leave"]), st.integers(1, 150), st.integers(0, 99))))
def test_grants_are_in_order_bounded_and_complete(steps: list[tuple[str, int, int]]) -> None:
    """Whatever comes and goes: at most the budget is held (or one frame), and in the end everything is back."""
    budget = MemoryBudget(100)
    held: list[int] = []
    waiting: list[tuple[int, object]] = []

    def ask(size_bytes: int) -> None:
        if budget.take(size_bytes):
            assert not waiting
            held.append(size_bytes)
            return

        def granted() -> None:
            assert waiting.pop(0) == (size_bytes, granted), "out of order"
            held.append(size_bytes)

        waiting.append((size_bytes, granted))
        budget.wait(size_bytes, granted)

    def give_one_back(which: int) -> None:
        budget.give_back(held.pop(which % len(held)))

    for step, size_bytes, which in steps:
        if step == "ask":
            ask(size_bytes)
        elif step == "return" and held:
            give_one_back(which)
        elif step == "leave" and waiting:
            _, granted = waiting.pop(which % len(waiting))
            budget.forget(granted)  # type: ignore[arg-type]
        assert budget.used_bytes == sum(held)
        assert len(held) == 1 or sum(held) <= 100
        assert not waiting or held, "somebody waits though nothing is held"
    while held:
        give_one_back(0)
    assert not waiting
    assert budget.used_bytes == 0
