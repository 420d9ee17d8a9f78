"""Checks that a history is linearizable: some order of the operations, each between its call and its answer, must be
possible for a machine that executes one operation at a time.

Wing and Gong's search, with a memory of tried states. An operation without an answer may take effect at any time after
its call, or never. Among unanswered operations with the same effect, the one called first is tried first, because it
may take effect wherever a later one may; otherwise each would double the search. Keys are checked independently,
because a history is linearizable when each of its objects is.
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
NEVER_TOLD = "(never told)"  # replaces every value that occurs in no answer
STEPS_MAX = 2_000_000  # beyond this the history is too concurrent to judge: a workload error

# The possible states after an operation with the given answer, from a state; empty: impossible.
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
    # One frame per placed operation: the placed set, the state then, and the choices not yet tried.
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
    """For each open operation, the bit of the earliest one with the same effect; 0: none."""
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
    """The possible next operations: those called before the first answer among the operations not yet placed."""
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
    # The last one is tried first: answered operations early in the history explain most; open ones come last.
    found.sort(key=lambda choice: (ends[choice[0]] != NEVER, -choice[0]))
    return found


def topic(state: str | None, op: Operation) -> Sequence[str | None]:
    """Model of a topic: absent (None), or present with one config whose value identifies its writer."""
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
    ("read", UNKNOWN): lambda state, op: (),  # no information
}


class LinearizableMetadata(Checker):
    """Invariant 5: all answers about topics, from any node, fit one order, and each write happens once.

    Lease reads are part of that order, which is invariant 6 as clients see it.
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
    """The shortest prefix of the history with an answer that cannot be explained."""
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
    """The history as known at that moment: later answers are removed."""
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
