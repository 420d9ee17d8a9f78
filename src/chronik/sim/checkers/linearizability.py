"""Is a history linearizable: is there one order of the operations, each at some moment between its call and its answer,
that a machine doing one thing at a time could have gone through?

Wing and Gong's search with the memory of states already tried. An operation without an answer may stand anywhere behind
its call, or nowhere. Of such operations many do the same as far as anybody was told: of those that do, the one called
first is tried first, as it may stand wherever a later one may. Without that, each of them doubles the search.
Keys are judged one by one, as a history is linearizable when each of its objects is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from chronik.sim.checkers.interface import Checker
from chronik.sim.history import OK, REFUSED, UNKNOWN, Operation

State = TypeVar("State", bound=Hashable)
NEVER = 1 << 62
NEVER_TOLD = "(never told)"  # in place of every value that no answer speaks of
STEPS_MAX = 2_000_000  # beyond it a history is too entangled to judge, which is an error of the workload

# The states in which a machine may be after it did the operation, with the answer given, in a state; none: impossible.
Model = Callable[[State, Operation], Sequence[State]]


class TooEntangled(Exception):
    pass


def find_order(operations: Iterable[Operation], model: Model[State], initial: State) -> list[Operation] | None:
    """An order that explains every answer, or None when there is none."""
    given = sorted(operations, key=lambda each: each.invoked_ns)
    told = {op.result for op in given}
    ops = [op if op.value in told else replace(op, value=NEVER_TOLD) for op in given]
    twins = _earlier_twins(ops)
    ends = [NEVER if op.returned_ns is None else op.returned_ns for op in ops]
    answered = sum(1 << at for at, op in enumerate(ops) if op.returned_ns is not None)
    tried: set[tuple[int, State]] = set()
    # One frame per operation placed: what is placed, the state then, and the choices not tried yet.
    stack: list[tuple[int, State, list[tuple[int, State]]]] = [
        (0, initial, _choices(ops, ends, twins, 0, initial, model))
    ]
    order: list[int] = []
    for _ in range(STEPS_MAX):
        placed, _state, choices = stack[-1]
        if placed & answered == answered:
            return [given[at] for at in order]
        if not choices:
            stack.pop()
            if not stack:
                return None
            order.pop()
            continue
        at, state = choices.pop()
        after = placed | 1 << at
        if (after, state) in tried:
            continue
        tried.add((after, state))
        order.append(at)
        stack.append((after, state, _choices(ops, ends, twins, after, state, model)))
    raise TooEntangled(f"{len(ops)} operations, {len(tried)} states tried")


def _earlier_twins(ops: Sequence[Operation]) -> list[int]:
    """Of each open operation the bit of the one called before it that does the same; 0: there is none."""
    last: dict[tuple[str, Hashable], int] = {}
    found = [0] * len(ops)
    for at, op in enumerate(ops):
        if op.is_open:
            found[at] = last.get((op.kind, op.value), 0)
            last[op.kind, op.value] = 1 << at
    return found


def _choices(
    ops: Sequence[Operation],
    ends: Sequence[int],
    twins: Sequence[int],
    placed: int,
    state: State,
    model: Model[State],
) -> list[tuple[int, State]]:
    """Who may come next: whoever was called before the first answer among those not placed yet."""
    first_end = NEVER
    candidates = []
    for at, op in enumerate(ops):
        if placed >> at & 1:
            continue
        if op.invoked_ns > first_end:
            break
        if placed & twins[at] == twins[at]:
            candidates.append(at)
        first_end = min(first_end, ends[at])
    found = [(at, after) for at in candidates if ops[at].invoked_ns <= first_end for after in model(state, ops[at])]
    # Last is tried first: answered ones early in the history explain most, open ones are tried when nothing else does.
    found.sort(key=lambda choice: (ends[choice[0]] != NEVER, -choice[0]))
    return found


def topic(state: str | None, op: Operation) -> Sequence[str | None]:
    """A topic by name: absent (None), or present with one config whose value tells who wrote it."""
    return TOPIC_STEPS[op.kind, op.status](state, op)


TOPIC_STEPS: dict[tuple[str, str], Callable[[str | None, Operation], Sequence[str | None]]] = {
    ("create", OK): lambda state, op: (op.value,) if state is None else (),
    ("create", REFUSED): lambda state, op: () if state is None else (state,),
    ("create", UNKNOWN): lambda state, op: (op.value,) if state is None else (),
    ("delete", OK): lambda state, op: () if state is None else (None,),
    ("delete", REFUSED): lambda state, op: (None,) if state is None else (),
    ("delete", UNKNOWN): lambda state, op: () if state is None else (None,),
    ("set", OK): lambda state, op: () if state is None else (op.value,),
    ("set", REFUSED): lambda state, op: (None,) if state is None else (),
    ("set", UNKNOWN): lambda state, op: () if state is None else (op.value,),
    ("read", OK): lambda state, op: (state,) if state == op.result else (),
    ("read", UNKNOWN): lambda state, op: (),  # says nothing
}


class LinearizableMetadata(Checker):
    """Invariant 5: what clients were told about topics, through any node, fits one order; each write happens once.

    Reads by a lease are part of that order, which is invariant 6 as clients see it.
    """

    name = "5 metadata is linearizable"

    def finish(self) -> None:
        by_key: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.history.operations:
            if (operation.kind, operation.status) in TOPIC_STEPS:
                by_key[operation.key].append(operation)
        for key, operations in by_key.items():
            if find_order(operations, topic, None) is None:
                shortest = _shortest_bad(operations)
                self.violated(f"topic {key}: no order explains " + "; ".join(map(str, shortest[-12:])))


def _shortest_bad(operations: list[Operation]) -> list[Operation]:
    """The history up to the first answer that cannot be explained."""
    moments = sorted({op.returned_ns for op in operations if op.returned_ns is not None})
    low, high = 0, len(moments) - 1
    while low < high:
        middle = (low + high) // 2
        if find_order(_up_to(operations, moments[middle]), topic, None) is None:
            high = middle
        else:
            low = middle + 1
    return _up_to(operations, moments[low])


def _up_to(operations: list[Operation], moment_ns: int) -> list[Operation]:
    """What was known at that moment: answers that came later are not there yet."""
    known = []
    for op in operations:
        if op.invoked_ns > moment_ns:
            continue
        if op.returned_ns is not None and op.returned_ns > moment_ns:
            open_op = Operation(op.number, op.client, op.node, op.kind, op.key, op.value, op.invoked_ns)
            known.append(open_op)
        else:
            known.append(op)
    return known
