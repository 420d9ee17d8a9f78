"""Tasks of a topology: partitions of subtopologies, in the roles active, standby and warm-up.

A member has an active task since a group epoch; the other roles have no such date. Values; nothing here decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

# Subtopology -> partitions.
TaskSet = Mapping[str, frozenset[int]]
# Subtopology -> partition -> the epoch since which a member has the task.
DatedTasks = Mapping[str, Mapping[int, int]]

NO_TASKS: Final[TaskSet] = {}
NO_DATED_TASKS: Final[DatedTasks] = {}


class NamedTasks(Protocol):
    """A subtopology with partitions, as messages and records have it."""

    subtopology_id: str
    partitions: list[int]


class Tasks(NamedTuple):
    """What a target gives a member, and what a member says that it has."""

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def touches(self, held: HeldTasks) -> bool:
        """Whether any of these is among `held`, in the same role."""
        roles = ((self.active, held.active), (self.standby, held.standby), (self.warmup, held.warmup))
        return any(
            not partitions.isdisjoint(others.get(subtopology, ()))
            for own, others in roles
            for subtopology, partitions in own.items()
        )

    def is_within(self, held: HeldTasks) -> bool:
        """Whether all of these are among `held`. A subtopology that is not there holds none, not even without
        partitions."""
        roles = ((self.active, held.active), (self.standby, held.standby), (self.warmup, held.warmup))
        return all(
            subtopology in others and partitions.issubset(others[subtopology])
            for own, others in roles
            for subtopology, partitions in own.items()
        )


class HeldTasks(NamedTuple):
    """What a member has, or has to give up."""

    active: DatedTasks = NO_DATED_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    @property
    def undated(self) -> Tasks:
        return Tasks(
            {name: frozenset(partitions) for name, partitions in self.active.items()}, self.standby, self.warmup
        )

    @property
    def size(self) -> int:
        return count(self.active) + count(self.standby) + count(self.warmup)


NOTHING: Final = Tasks()
NOTHING_HELD: Final = HeldTasks()


def count(tasks: TaskSet | DatedTasks) -> int:
    return sum(map(len, tasks.values()))


def task_set(named: Iterable[NamedTasks] | None) -> TaskSet:
    """A subtopology that is named twice counts once, with all its partitions."""
    found: dict[str, frozenset[int]] = {}
    for each in named or ():
        found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return found
