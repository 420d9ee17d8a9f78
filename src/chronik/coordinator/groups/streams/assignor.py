"""Which member gets which tasks: balanced within one, and sticky.

Active tasks first. A task stays with the member that has it, or goes to one that kept it warm as a standby, as long as
that member has no more than its share; the rest goes to the members that have least. Standby tasks follow by the
same rules: never to a process that has the task already, and as many as there are processes for.

A process is one running application, its members are its threads. Pure, and the same for the same input.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from chronik.coordinator.groups.streams.tasks import Tasks, TaskSet

Task = tuple[str, int]  # subtopology and partition


class Worker(NamedTuple):
    """A member, with the target that it had."""

    member_id: str
    process_id: str
    before: Tasks


class Work(NamedTuple):
    """A subtopology."""

    task_count: int
    is_stateful: bool  # only then is there something to keep warm


def assign(workers: Collection[Worker], work: Mapping[str, Work], standby_replicas: int) -> dict[str, Tasks]:
    """A target for each member."""
    if not workers:
        return {}
    return _Assignment(workers, work, standby_replicas).made()


class _Share:
    """How many tasks a member may get. A member that has its share leaves the rest to the others: all differ by one at
    most."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._left, self._members = task_count, member_count

    @property
    def size(self) -> int:
        return -(-self._left // self._members) if self._members else 0

    def got(self, count: int) -> None:
        if self._members and count == self.size:
            self._members -= 1
            self._left -= count


class _Process:
    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}  # tasks by member
        self.tasks: set[Task] = set()

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.counts)

    def least_loaded(self) -> str:
        return min(self.counts, key=lambda member: (self.counts[member], member))


class _Assignment:
    def __init__(self, workers: Collection[Worker], work: Mapping[str, Work], standby_replicas: int) -> None:
        self._work = work
        self._replicas = standby_replicas
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._active_before: dict[Task, str] = {}
        self._standby_before: dict[Task, list[str]] = {}
        for worker in sorted(workers):
            process = self._processes.setdefault(worker.process_id, _Process(worker.process_id))
            process.counts[worker.member_id] = 0
            self._process_of[worker.member_id] = process
            for task in _tasks(worker.before.active):
                self._active_before[task] = worker.member_id
            for task in _tasks(worker.before.standby):
                self._standby_before.setdefault(task, []).append(worker.member_id)
        active_count = sum(each.task_count for each in work.values())
        standby_count = sum(each.task_count * standby_replicas for each in work.values() if each.is_stateful)
        self._active_share = _Share(active_count, len(workers))
        self._whole_share = _Share(active_count + standby_count, len(workers))
        self._active: dict[str, set[Task]] = {worker.member_id: set() for worker in workers}
        self._standby: dict[str, set[Task]] = {worker.member_id: set() for worker in workers}

    def made(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._replicas:
            self._assign_standby()
        return {
            member: Tasks(_grouped(self._active[member]), _grouped(self._standby[member])) for member in self._active
        }

    def _all_tasks(self, *, stateful_only: bool = False) -> list[Task]:
        return [
            (name, partition)
            for name, each in self._work.items()
            if each.is_stateful or not stateful_only
            for partition in range(each.task_count)
        ]

    # --- active tasks

    def _assign_active(self) -> None:
        # The same partitions of all subtopologies stay together.
        tasks = sorted(self._all_tasks(), key=lambda task: (task[1], task[0]))
        tasks = [task for task in tasks if not self._goes_back(task, self._active_before.get(task))]
        tasks = [task for task in tasks if not self._goes_back(task, self._least_loaded_standby(task))]
        if not tasks:
            return
        members = [
            (count, each.load, member) for each in self._processes.values() for member, count in each.counts.items()
        ]
        heapq.heapify(members)
        for task in sorted(tasks):
            member = members[0][2]
            self._give_active(member, task)
            process = self._process_of[member]
            heapq.heapreplace(members, (process.counts[member], process.load, member))

    def _goes_back(self, task: Task, member: str | None) -> bool:
        if member is None or self._process_of[member].counts[member] >= self._active_share.size:
            return False
        self._give_active(member, task)
        return True

    def _least_loaded_standby(self, task: Task) -> str | None:
        return self._least_loaded(self._standby_before.get(task, ()))

    def _least_loaded(self, members: Iterable[str]) -> str | None:
        def load(member: str) -> tuple[float, int, str]:
            process = self._process_of[member]
            return process.load, process.counts[member], member

        return min(members, key=load, default=None)

    def _give_active(self, member: str, task: Task) -> None:
        self._active[member].add(task)
        count = self._count(member, task)
        self._active_share.got(count)
        self._whole_share.got(count)

    # --- standby tasks

    def _assign_standby(self) -> None:
        left: list[Task] = []
        tasks = sorted(self._all_tasks(stateful_only=True), key=lambda task: (task[1], task[0]), reverse=True)
        for task in tasks:
            for number in range(self._replicas):
                candidates = (self._active_before.get(task), self._least_loaded_without(task))
                member = next((each for each in candidates if each is not None and self._may_keep(each, task)), None)
                if member is None:
                    left += [task] * (self._replicas - number)
                    break
                self._give_standby(member, task)
        by_load = self._by_load()
        for task in sorted(left, reverse=True):
            passed = []
            while by_load:
                entry = heapq.heappop(by_load)
                process = entry[2]
                if task not in process.tasks:
                    self._give_standby(process.least_loaded(), task)
                    passed.append((process.load, process.process_id, process))
                    break
                passed.append(entry)
            for entry in passed:
                heapq.heappush(by_load, entry)

    def _least_loaded_without(self, task: Task) -> str | None:
        members = self._standby_before.get(task, ())
        return self._least_loaded(each for each in members if task not in self._process_of[each].tasks)

    def _may_keep(self, member: str, task: Task) -> bool:
        process = self._process_of[member]
        return task not in process.tasks and process.counts[member] < self._whole_share.size

    def _give_standby(self, member: str, task: Task) -> None:
        self._standby[member].add(task)
        self._whole_share.got(self._count(member, task))

    # ---

    def _count(self, member: str, task: Task) -> int:
        process = self._process_of[member]
        process.tasks.add(task)
        process.counts[member] += 1
        return process.counts[member]

    def _by_load(self) -> list[tuple[float, str, _Process]]:
        """A heap. Only the load of the process that is taken from it changes."""
        heap = [(each.load, each.process_id, each) for each in self._processes.values()]
        heapq.heapify(heap)
        return heap


def _tasks(tasks: TaskSet) -> Iterable[Task]:
    return ((name, partition) for name, partitions in sorted(tasks.items()) for partition in sorted(partitions))


def _grouped(tasks: Iterable[Task]) -> TaskSet:
    found: dict[str, set[int]] = {}
    for name, partition in sorted(tasks):
        found.setdefault(name, set()).add(partition)
    return {name: frozenset(partitions) for name, partitions in found.items()}
