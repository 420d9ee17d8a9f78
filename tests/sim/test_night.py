"""A night of simulation covers everything evenly, and continues where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chronik.sim.errors import BadResults, UnknownFault, UnknownScenario
from chronik.sim.loss_scenario import FAULTS
from chronik.sim.night import CHUNK_SEEDS, Chunk, Code, Night, Subject, all_subjects, digest_of, subjects_named
from chronik.sim.scenarios import SCENARIOS
from chronik.sim.sweep import Result

CODE = Code("a" * 40, is_dirty=False, digest="1")
CHANGED = Code("b" * 40, is_dirty=True, digest="2")
JOURNAL, SEGMENT, SWARM = Subject("loss", "lost journal"), Subject("loss", "rot in segment"), Subject("swarm")
ALL = [JOURNAL, SEGMENT, SWARM]


def results(chunk: Chunk, failing: int | None = None) -> list[Result]:
    """As the workers give them: in any order."""
    return [
        Result(seed, "22 damage is served: here\nand more" if seed == failing else "", "", 9, 9, "", cpu_s=0.5)
        for seed in reversed(chunk.seeds)
    ]


def run(night: Night, chunks: int, failing: int | None = None) -> list[tuple[Subject, int]]:
    """Of each chunk that ran: its subject and its first seed."""
    ran = []
    for _ in range(chunks):
        chunk = night.next_chunk()
        assert chunk is not None
        night.finish(chunk, results(chunk, failing))
        ran.append((chunk.subject, chunk.seeds.start))
    return ran


def test_a_night_has_every_storage_fault_and_every_other_scenario() -> None:
    """A fault that is added to the table is simulated the next night automatically."""
    expected = {Subject("loss", fault) for fault in FAULTS} | {Subject(name) for name in SCENARIOS if name != "loss"}
    assert set(all_subjects()) == expected
    assert len(all_subjects()) == len(expected)


def test_faults_that_no_seed_draws_are_told_apart() -> None:
    """They may fail: a table that mixed them with the others would hide what must not."""
    assert Subject("wire", "played back").is_by_name_only
    assert not Subject("wire", "stranger").is_by_name_only
    assert not Subject("wire").is_by_name_only


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["lost-journal"], ["loss/lost-journal"]),
        (["swarm", "loss/old-disk", "swarm"], ["swarm", "loss/old-disk"]),
        (["wire/played-back"], ["wire/played-back"]),
        (["loss"], [str(each) for each in all_subjects() if each.scenario == "loss"]),
        ([], [str(each) for each in all_subjects()]),
    ],
)
def test_subjects_are_chosen_by_the_name_of_a_scenario_or_a_fault(names: list[str], expected: list[str]) -> None:
    assert [str(each) for each in subjects_named(names)] == expected


def test_a_misspelt_fault_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UnknownFault, match="storage fault 'lost-jurnal': did you mean 'lost-journal'"):
        subjects_named(["lost-jurnal"])


@pytest.mark.parametrize(
    ("name", "error"), [("lost-keys", UnknownFault), ("loss/lost-keys", UnknownFault), ("lost/x", UnknownScenario)]
)
def test_an_unknown_name_is_told_with_those_there_are(name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"lost-journal|swarm"):
        subjects_named([name])


def test_every_subject_has_its_first_chunk_before_any_has_a_second(tmp_path: Path) -> None:
    """A night that is stopped early has covered all of them."""
    night = Night(tmp_path / "results", CODE, ALL)
    assert run(night, 5) == [(JOURNAL, 0), (SEGMENT, 0), (SWARM, 0), (JOURNAL, 100), (SEGMENT, 100)]


def test_each_subject_runs_as_many_seeds_as_it_is_to(tmp_path: Path) -> None:
    """Storage faults run twice as many as other scenarios. The last chunk may be smaller than the others."""
    night = Night(tmp_path / "results", CODE, ALL)
    run(night, (2000 + 2000 + 1000) // CHUNK_SEEDS)
    assert night.next_chunk() is None
    few = Night(tmp_path / "few", CODE, ALL, first=7, seeds=130)
    run(few, 3)
    assert few.next_chunk() == Chunk(JOURNAL, range(107, 137))
    run(few, 3)
    assert few.next_chunk() is None
    assert [line.count for line in few.lines.values()] == [130, 130, 130]


def test_an_interrupted_night_continues_where_it_stopped(tmp_path: Path) -> None:
    """What ran is not run again, what failed is not forgotten, and the chunk that was under way runs as a whole."""
    night = Night(tmp_path / "results", CODE, ALL)
    run(night, 4, failing=42)
    assert night.next_chunk() == Chunk(SEGMENT, range(100, 200))
    again = Night(tmp_path / "results", CODE, ALL)
    assert again.next_chunk() == Chunk(SEGMENT, range(100, 200))
    assert again.failed_count == 3
    assert again.lines[JOURNAL].failed == {"42": "22 damage is served: here"}
    assert again.lines[JOURNAL].cpu_s == 100.0


@pytest.mark.parametrize(
    ("code", "first", "continues"),
    [(CHANGED, 0, True), (CODE, 5000, True), (CODE, 0, False)],
    ids=["other code", "other seeds", "told to"],
)
def test_a_night_begins_anew(tmp_path: Path, code: Code, first: int, continues: bool) -> None:
    """Seeds that other code has passed say nothing about this one."""
    run(Night(tmp_path / "results", CODE, ALL), 4, failing=42)
    night = Night(tmp_path / "results", code, ALL, first=first, continues=continues)
    assert night.next_chunk() == Chunk(JOURNAL, range(first, first + CHUNK_SEEDS))
    assert night.failed_count == 0


def test_results_of_other_code_and_of_other_subjects_stay_in_the_file(tmp_path: Path) -> None:
    """Last week's failures must not be lost when one more fault is run today."""
    run(Night(tmp_path / "results", CODE, ALL), 3, failing=42)
    run(Night(tmp_path / "results", CHANGED, ALL), 1)
    run(Night(tmp_path / "results", CODE, [SWARM]), 1)
    kept = Night(tmp_path / "results", CODE, ALL)
    assert [line.count for line in kept.lines.values()] == [100, 100, 200]
    assert kept.failed_count == 3
    assert Night(tmp_path / "results", CHANGED, ALL).lines[JOURNAL].count == 100


def test_a_line_of_results_says_what_ran_and_what_failed(tmp_path: Path) -> None:
    """It is read by programs, and by people weeks later."""
    run(Night(tmp_path / "results", CHANGED, [JOURNAL], first=40), 1, failing=42)
    [line] = (tmp_path / "results").read_text().splitlines()
    assert json.loads(line) == {
        "scenario": "loss",
        "fault": "lost journal",
        "commit": "b" * 40,
        "is_dirty": True,
        "code": "2",
        "first": 40,
        "count": 100,
        "cpu_s": 50.0,
        "failed": {"42": "22 damage is served: here"},
    }


def test_a_file_that_holds_something_else_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text("dear diary\n")
    with pytest.raises(BadResults, match="results"):
        Night(path, CODE, ALL)
    assert path.read_text() == "dear diary\n"


def test_what_is_left_is_estimated_by_what_each_subject_costs(tmp_path: Path) -> None:
    """Scenarios differ by a factor of fifty."""
    night = Night(tmp_path / "results", CODE, [JOURNAL, SWARM], seeds=200)
    for cost_s in (1.0, 3.0):
        chunk = night.next_chunk()
        assert chunk is not None
        night.finish(chunk, [each._replace(cpu_s=cost_s) for each in results(chunk)])
    assert night.left_cpu_s() == 400.0


def test_code_is_told_apart_by_its_files(tmp_path: Path) -> None:
    """Two states of a working tree have the same commit."""
    (tmp_path / "a.py").write_text("1")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    (tmp_path / "a.py").write_text("2")
    assert digest_of(tmp_path) != before
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    (tmp_path / "b.py").write_text("1")
    assert digest_of(tmp_path) != before
