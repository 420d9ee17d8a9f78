"""A night of simulation: which seeds run next, and a results file from which an interrupted night continues.

A subject is a scenario, or a scenario with one named fault. Each storage fault of the scenario `loss` is a subject;
every other scenario is one. The subject with the fewest finished seeds runs next, so a night that ends early has
covered all subjects evenly.

The results file has one line of JSON per subject. It is replaced as a whole after each chunk of seeds, so it never
holds half a chunk. Lines that other code produced stay as they are: seeds count only for the code that ran them.
Nothing here starts a process or reads a clock.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from chronik.sim.errors import BadResults, UnknownFault
from chronik.sim.loss_scenario import LossScenario
from chronik.sim.scenarios import SCENARIOS, fault_named
from chronik.sim.sweep import Result

CHUNK_SEEDS = 100
FAULT_SEEDS = 2000  # per storage fault
SCENARIO_SEEDS = 1000  # per other scenario


class Subject(NamedTuple):
    scenario: str
    fault: str = ""  # empty: the seed draws it

    def __str__(self) -> str:
        return f"{self.scenario}/{self.fault.replace(' ', '-')}" if self.fault else self.scenario

    @property
    def seeds(self) -> int:
        """Default number of seeds."""
        return FAULT_SEEDS if self.scenario == LossScenario.name else SCENARIO_SEEDS

    @property
    def is_by_name_only(self) -> bool:
        return self.fault in SCENARIOS[self.scenario].by_name_only

    @property
    def command(self) -> str:
        fault = f" --fault {self.fault.replace(' ', '-')}" if self.fault else ""
        return f"chronik sim --scenario {self.scenario}{fault}"


def all_subjects() -> list[Subject]:
    faults = [Subject(LossScenario.name, fault) for fault in LossScenario.selectable]
    others = [Subject(name) for name in SCENARIOS if name != LossScenario.name]
    return sorted([*faults, *others], key=lambda each: each.is_by_name_only)


def subjects_named(names: Iterable[str]) -> list[Subject]:
    """Subjects with names such as `loss`, `lost-journal`, `swarm` or `wire/played-back`; all if no name is given."""
    found: dict[Subject, None] = {}
    for name in names:
        scenario, _, fault = name.partition("/")
        if fault:
            found[Subject(scenario, fault_named(scenario, fault))] = None
        elif name == LossScenario.name:
            found |= dict.fromkeys(each for each in all_subjects() if each.scenario == name)
        elif name in SCENARIOS:
            found[Subject(name)] = None
        else:
            found[_storage_fault(name)] = None
    return list(found) or all_subjects()


def _storage_fault(name: str) -> Subject:
    if name.replace("-", " ") not in LossScenario.selectable:
        choices = [str(each).removeprefix("loss/") for each in all_subjects()]
        near = get_close_matches(name, choices, 1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise UnknownFault(f"unknown scenario or storage fault {name!r}:{hint} choose one of {', '.join(choices)}")
    return Subject(LossScenario.name, name.replace("-", " "))


class Code(NamedTuple):
    """The version that runs. `digest` also distinguishes versions that have the same commit."""

    commit: str
    is_dirty: bool
    digest: str


def digest_of(package: Path) -> str:
    """Covers the path and the content of every Python file below a directory."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(package.rglob("*.py")):
        data = path.read_bytes()
        found.update(f"{path.relative_to(package)} {len(data)}\n".encode() + data)
    return found.hexdigest()


@dataclass
class Line:
    """The results of one subject: `count` seeds have run, starting at `first`."""

    scenario: str
    fault: str
    commit: str
    is_dirty: bool
    code: str
    first: int
    count: int = 0
    cpu_s: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)  # by seed: the first line of the failure

    @property
    def subject(self) -> Subject:
        return Subject(self.scenario, self.fault)

    def add(self, results: Sequence[Result]) -> None:
        self.count += len(results)
        self.cpu_s = round(self.cpu_s + sum(each.cpu_s for each in results), 3)
        for each in sorted(results):
            if each.failure:
                self.failed[str(each.seed)] = each.failure.partition("\n")[0]


class Chunk(NamedTuple):
    subject: Subject
    seeds: range


class Night:
    """`seeds` is the number of seeds per subject; None: the default of each."""

    def __init__(
        self,
        path: Path,
        code: Code,
        subjects: Sequence[Subject],
        *,
        first: int = 0,
        seeds: int | None = None,
        continues: bool = True,
    ) -> None:
        self._path, self._seeds = path, seeds
        self.lines = {subject: Line(*subject, code.commit, code.is_dirty, code.digest, first) for subject in subjects}
        self._others: list[Line] = []  # other code, other first seeds, or subjects that do not run now
        for line in _read(path):
            if line.subject not in self.lines or (line.code, line.first) != (code.digest, first):
                self._others.append(line)
            elif continues:
                line.commit, line.is_dirty = code.commit, code.is_dirty
                self.lines[line.subject] = line

    def wanted(self, subject: Subject) -> int:
        return subject.seeds if self._seeds is None else self._seeds

    def left(self, subject: Subject) -> int:
        return max(0, self.wanted(subject) - self.lines[subject].count)

    @property
    def failed_count(self) -> int:
        return sum(len(line.failed) for line in self.lines.values())

    def next_chunk(self) -> Chunk | None:
        """None when all seeds have run."""
        waiting = [line for subject, line in self.lines.items() if self.left(subject)]
        if not waiting:
            return None
        line = min(waiting, key=lambda each: each.count)
        start = line.first + line.count
        return Chunk(line.subject, range(start, start + min(CHUNK_SEEDS, self.left(line.subject))))

    def finish(self, chunk: Chunk, results: Sequence[Result]) -> None:
        """Adds the results of a whole chunk and writes the file."""
        self.lines[chunk.subject].add(results)
        kept = [*self._others, *(line for line in self.lines.values() if line.count)]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        made = self._path.with_name(self._path.name + ".tmp")
        made.write_text("".join(json.dumps(asdict(line)) + "\n" for line in kept))
        os.replace(made, self._path)

    def left_cpu_s(self) -> float:
        """CPU seconds that remain, estimated from the cost of each subject so far, or from the average of all."""
        count = sum(line.count for line in self.lines.values())
        average_s = sum(line.cpu_s for line in self.lines.values()) / count if count else 0.0
        return sum(
            self.left(subject) * (line.cpu_s / line.count if line.count else average_s)
            for subject, line in self.lines.items()
        )


def _read(path: Path) -> list[Line]:
    if not path.exists():
        return []
    try:
        return [Line(**json.loads(text)) for text in path.read_text().splitlines()]
    except (ValueError, TypeError) as error:
        raise BadResults(f"{path} is not a results file of `chronik sim night`: {error}; name another file") from error
