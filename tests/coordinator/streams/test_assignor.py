"""Tasks are spread evenly, stay where they are, and are kept warm elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from chronik.coordinator.groups.streams.assignor import Work, Worker, assign
from chronik.coordinator.groups.streams.tasks import NOTHING, Tasks, count

STATELESS, STATEFUL = False, True


def workers(processes: Mapping[str, int], before: Mapping[str, Tasks] | None = None) -> list[Worker]:
    """Processes by name, each with this many threads."""
    return [
        Worker(f"{process}-{number}", process, (before or {}).get(f"{process}-{number}", NOTHING))
        for process, threads in processes.items()
        for number in range(threads)
    ]


def active(tasks: Tasks) -> set[tuple[str, int]]:
    return {(name, partition) for name, partitions in tasks.active.items() for partition in partitions}


def standby(tasks: Tasks) -> set[tuple[str, int]]:
    return {(name, partition) for name, partitions in tasks.standby.items() for partition in partitions}


def process_of(member: str) -> str:
    return member.partition("-")[0]


def test_every_task_has_one_owner_and_all_members_have_as_many_within_one() -> None:
    random = Random(3)
    for _ in range(200):
        processes = {f"p{number}": random.randrange(1, 4) for number in range(random.randrange(1, 5))}
        work = {
            f"s{number}": Work(random.randrange(1, 9), random.random() < 0.5)
            for number in range(random.randrange(1, 4))
        }
        replicas = random.randrange(3)
        before = assign(workers(processes), work, replicas)
        processes.pop(random.choice(sorted(processes))) if len(processes) > 1 and random.random() < 0.5 else None
        found = assign(workers(processes, before), work, replicas)
        owned = [task for tasks in found.values() for task in active(tasks)]
        everything = {(name, partition) for name, each in work.items() for partition in range(each.task_count)}
        assert sorted(owned) == sorted(everything)
        counts = [count(tasks.active) for tasks in found.values()]
        assert max(counts) - min(counts) <= 1, (processes, work)
        by_process: dict[str, list[tuple[str, int]]] = {}
        for member, tasks in found.items():
            by_process.setdefault(process_of(member), []).extend((*active(tasks), *standby(tasks)))
        for held in by_process.values():
            assert len(held) == len(set(held)), "a process has a task in two roles"
        for name, each in work.items():
            wanted = min(replicas, len(by_process) - 1) if each.is_stateful else 0
            for partition in range(each.task_count):
                copies = sum((name, partition) in standby(tasks) for tasks in found.values())
                assert copies == wanted


def test_nothing_moves_when_nothing_changes() -> None:
    processes, work = {"a": 2, "b": 1, "c": 3}, {"0": Work(7, STATEFUL), "1": Work(5, STATELESS)}
    before = assign(workers(processes), work, 1)
    assert assign(workers(processes, before), work, 1) == before


def test_a_new_process_gets_its_share_and_the_others_keep_the_rest() -> None:
    """Each task that moves is state that has to be restored."""
    work = {"0": Work(12, STATEFUL)}
    before = assign(workers({"a": 1, "b": 1}), work, 0)
    after = assign(workers({"a": 1, "b": 1, "c": 1}, before), work, 0)
    assert [count(after[member].active) for member in ("a-0", "b-0", "c-0")] == [4, 4, 4]
    assert active(after["a-0"]) < active(before["a-0"])
    assert active(after["b-0"]) < active(before["b-0"])


def test_the_tasks_of_a_process_that_died_go_where_they_were_kept_warm() -> None:
    work = {"0": Work(6, STATEFUL)}
    before = assign(workers({"a": 1, "b": 1, "c": 1}), work, 1)
    after = assign(workers({"a": 1, "b": 1}, before), work, 1)
    lost = active(before["c-0"])
    for member in ("a-0", "b-0"):
        warm = lost & standby(before[member])
        assert len(active(after[member]) & warm) == min(1, len(warm))  # each has room for one more


def test_threads_of_one_process_do_not_keep_each_other_warm() -> None:
    found = assign(workers({"a": 3}), {"0": Work(3, STATEFUL)}, 1)
    assert not any(tasks.standby for tasks in found.values())


def test_a_group_without_members_or_without_work_has_nothing_to_assign() -> None:
    assert assign([], {"0": Work(3, STATEFUL)}, 1) == {}
    assert assign(workers({"a": 1}), {}, 1) == {"a-0": NOTHING}
