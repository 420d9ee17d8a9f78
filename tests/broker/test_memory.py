"""The memory budget: granted in order, never twice, and given back whole."""

from __future__ import annotations

from collections.abc import Callable

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
    """Otherwise small frames could make a large one wait forever."""
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


class Frames:
    """Records the names of granted frames."""

    def __init__(self) -> None:
        self.granted: list[str] = []
        self._made: dict[str, Callable[[], None]] = {}

    def __getitem__(self, name: str) -> Callable[[], None]:
        return self._made.setdefault(name, lambda: self.granted.append(name))


def test_one_address_cannot_keep_the_others_waiting() -> None:
    """It gets its share of the budget. Its next frames wait for its own, and block no other address."""
    budget, frames = MemoryBudget(100, 50), Frames()
    assert budget.take(50, "attacker")
    assert not budget.take(10, "attacker")
    budget.wait(10, frames["more of the attacker"], "attacker")
    assert budget.take(30, "honest")
    assert budget.take(20, "honest")
    assert not budget.take(1, "third"), "the budget is spent"
    budget.wait(1, frames["third"], "third")
    budget.give_back(30, "honest")
    assert frames.granted == ["third"]
    budget.give_back(50, "attacker")
    assert frames.granted == ["third", "more of the attacker"]


def test_a_frame_larger_than_a_share_is_granted_to_an_address_that_holds_nothing() -> None:
    budget = MemoryBudget(100, 50)
    assert budget.take(10, "other")
    assert budget.take(80, "large")
    assert not budget.take(1, "large")


def test_frames_that_have_begun_do_not_wait_for_each_other_for_ever() -> None:
    """All of them hold memory and none is whole. One exceeds the budget until it is; then it is the next one's turn."""
    budget, frames = MemoryBudget(100), Frames()
    for name in ("one", "two", "three", "four"):
        assert budget.take(25), name
    assert not budget.take(25, begun_by=frames["one"]) or budget.overdrawn_by == frames["one"]
    budget.wait(25, frames["two"], has_begun=True)
    budget.wait(25, frames["three"], has_begun=True)
    assert frames.granted == [], "one at a time"
    assert budget.used_bytes == 125
    budget.ended(frames["one"])  # whole: it is being handled, and holds its memory still
    assert frames.granted == []
    budget.give_back(50)
    assert frames.granted == ["two", "three"], "the first of them fits, the second one exceeds the budget"
    assert budget.used_bytes == 125
    assert budget.overdrawn_by == frames["three"]


def test_who_exceeds_the_budget_does_not_wait_behind_those_who_wait_for_it() -> None:
    budget, frames = MemoryBudget(100), Frames()
    assert budget.take(50)
    assert budget.take(50)
    assert budget.take(50, begun_by=frames["first"])
    budget.wait(50, frames["second"], has_begun=True)
    assert budget.take(100, begun_by=frames["first"])


def test_a_frame_that_has_begun_comes_before_new_ones() -> None:
    """Otherwise its memory would be held as long as new frames keep coming."""
    budget, frames = MemoryBudget(100), Frames()
    assert budget.take(100)
    budget.overdrawn_by = frames["somebody else"]
    budget.wait(40, frames["new"])
    budget.wait(40, frames["begun"], has_begun=True)
    budget.give_back(50)
    assert frames.granted == ["begun"]
    budget.give_back(30)
    assert frames.granted == ["begun", "new"]


def test_who_may_exceed_the_budget_is_gone_and_the_next_one_may() -> None:
    budget, frames = MemoryBudget(100), Frames()
    assert budget.take(50)
    assert budget.take(50)
    assert budget.take(50, begun_by=frames["first"])
    budget.wait(50, frames["second"], has_begun=True)
    budget.used_bytes -= 100  # the memory of the first one is released with it
    budget.forget(frames["first"])
    assert frames.granted == ["second"]


def test_what_is_kept_between_requests_leaves_less_for_them() -> None:
    budget, frames = MemoryBudget(100), Frames()
    budget.keep(60)
    assert budget.take(30)
    assert not budget.take(30)
    assert budget.room_bytes == 10
    budget.wait(30, frames["frame"])
    budget.keep(-60)
    assert frames.granted == ["frame"]
