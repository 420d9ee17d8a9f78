"""`chronik sim`: what its options ask of the simulator. That itself is tested in tests/sim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chronik.sim import scenarios, sweep, workers
from chronik.sim.errors import Violation
from chronik.sim.faults import Fault
from chronik.sim.scenario import Outcome
from chronik.sim.sweep import Result
from tests.cli.conftest import Run

FAULT = Fault(300, "kill", 2, duration_ms=1500)
FAILED = Outcome(7, "quorum", [FAULT], ["a line"], failure=Violation("3 committed", "is not"))


@pytest.mark.parametrize(
    ("words", "fault_count"),
    [((), 0), (("--shrink",), 0), (("--no-shrink",), 1)],
    ids=["by default", "--shrink", "--no-shrink"],
)
def test_a_failing_seed_is_shrunk_unless_told_otherwise(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], fault_count: int
) -> None:
    """Two hundred more runs are unwanted if only the first failure is of interest."""
    monkeypatch.setattr(scenarios, "run_named", lambda *_, **_named: FAILED)
    monkeypatch.setattr(sweep, "shrunk", lambda outcome, tell: Outcome(7, "quorum", [], [], failure=outcome.failure))
    done = run_command("sim", "--scenario", "quorum", "--seed", "7", *words)
    assert done.exit_code == 1
    assert f"faults: {fault_count}" in done.out


def test_a_fault_that_a_scenario_does_not_have_is_told_with_those_it_has(run_command: Run) -> None:
    """Two dozen names are hard to remember."""
    done = run_command("sim", "--scenario", "loss", "--fault", "lost-keys", "--seeds", "1")
    assert done.exit_code != 0
    assert "lost-journal" in done.err


class FakeWorkers:
    """Every seed passes, except those in `failing`; after `chunks_max` chunks Ctrl-C is simulated."""

    failing: tuple[int, ...] = ()
    chunks_max = 1000
    ran: list[tuple[str, int]]
    is_closed = False

    def __init__(self, jobs: int = 0) -> None:
        FakeWorkers.ran = []
        FakeWorkers.is_closed = False

    def run(self, scenario: str, fault: str, seeds: Sequence[int]) -> Iterator[Result]:
        for seed in seeds:
            if len(FakeWorkers.ran) == FakeWorkers.chunks_max:
                raise KeyboardInterrupt
            yield Result(seed, "3 lost: this\nand that" if seed in self.failing else "", "", 1, 1, "", 0.25)
        FakeWorkers.ran.append((fault or scenario, seeds[0]))

    def close(self) -> None:
        FakeWorkers.is_closed = True


@pytest.fixture
def fake_workers(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorkers]:
    monkeypatch.setattr(workers, "Workers", FakeWorkers)
    monkeypatch.setattr(FakeWorkers, "failing", ())
    monkeypatch.setattr(FakeWorkers, "chunks_max", 1000)
    return FakeWorkers


NIGHT = ("sim", "night", "--only", "lost-journal", "--only", "swarm", "--seeds", "200", "--results")


def test_a_night_without_failures_ends_with_a_table(
    run_command: Run, fake_workers: type[FakeWorkers], tmp_path: Path
) -> None:
    done = run_command(*NIGHT, str(tmp_path / "results"))
    assert done.exit_code == 0
    assert fake_workers.ran == [("lost journal", 0), ("swarm", 0), ("lost journal", 100), ("swarm", 100)]
    assert [line.split() for line in done.out.splitlines()[1:3]] == [
        ["loss/lost-journal", "200", "0", "0.25"],
        ["swarm", "200", "0", "0.25"],
    ]
    assert "400 of 400 seeds, 0 failed" in done.err
    assert fake_workers.is_closed


def test_a_failing_seed_of_a_night_is_told_at_once_and_with_the_command_that_shows_it(
    run_command: Run, fake_workers: type[FakeWorkers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it failed before an interruption: the exit code is the whole night's."""
    monkeypatch.setattr(fake_workers, "failing", (142, 17))
    done = run_command(*NIGHT, str(tmp_path / "results"))
    assert done.exit_code == 1
    assert "loss/lost-journal seed 17: 3 lost: this\n" in done.out
    assert "chronik sim --scenario loss --fault lost-journal --seed 17\n" in done.out
    monkeypatch.setattr(fake_workers, "failing", ())
    assert run_command(*NIGHT, str(tmp_path / "results")).exit_code == 1
    assert fake_workers.ran == []


def test_an_interrupted_night_keeps_what_ran_and_continues(
    run_command: Run, fake_workers: type[FakeWorkers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of a chunk: that chunk is not counted, those before it are."""
    monkeypatch.setattr(fake_workers, "chunks_max", 3)
    assert run_command(*NIGHT, str(tmp_path / "results")).exit_code == 130
    assert fake_workers.is_closed
    monkeypatch.setattr(fake_workers, "chunks_max", 1000)
    assert run_command(*NIGHT, str(tmp_path / "results")).exit_code == 0
    assert fake_workers.ran == [("swarm", 100)]


def test_a_night_of_an_unknown_fault_names_those_there_are(run_command: Run, tmp_path: Path) -> None:
    done = run_command("sim", "night", "--only", "lost-keys", "--results", str(tmp_path / "results"))
    assert done.exit_code != 0
    assert "lost-journal" in done.err
