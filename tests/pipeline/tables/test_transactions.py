"""A batch enters a table once, whatever crashes, repeats or races. No Spark: the rule is the driver's alone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.pipeline.tables import transactions
from chronik.pipeline.tables.appending import append
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.files import DataFile
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName, newest_note
from tests.pipeline.tables.rows import DELTA_SCHEMA, batches_in_history, offsets_in, written


class Died(Exception):
    """Replaces kill -9: nothing after it runs."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.of(str(tmp_path / "table"))


def commit(place: Place, number: int, offsets: list[int], application: str = "query") -> bool:
    return append(place, BatchName(application, number), written(place, offsets, batch=number), DELTA_SCHEMA)


def test_a_batch_that_is_run_again_adds_nothing(place: Place) -> None:
    """A driver that died after its commit runs the batch again, with new files."""
    assert commit(place, 0, [0, 1])
    assert not commit(place, 0, [0, 1])
    assert commit(place, 1, [2])
    assert not commit(place, 0, [0, 1])
    assert offsets_in(place) == [0, 1, 2]
    assert batches_in_history(place) == [("query", 0), ("query", 1)]


def test_files_of_a_batch_that_was_not_committed_are_not_seen(place: Place) -> None:
    """A driver that died before its commit leaves files, which must not be part of the table."""
    commit(place, 0, [0])
    left_behind = written(place, [1], batch=1)
    assert (Path(place.uri) / left_behind[0].path).exists()
    assert offsets_in(place) == [0]
    commit(place, 1, [1])
    assert offsets_in(place) == [0, 1]


def test_two_applications_count_for_themselves(place: Place) -> None:
    """Two queries may write to one table, and both have a batch 0."""
    assert commit(place, 0, [0], "one")
    assert commit(place, 0, [1], "two")
    assert offsets_in(place) == [0, 1]


def test_a_batch_without_a_name_is_written_each_time(place: Place) -> None:
    """A plain batch write has no name to be recognised by; the user requested two writes."""
    for _ in range(2):
        assert append(place, None, written(place, [0]), DELTA_SCHEMA)
    assert offsets_in(place) == [0, 0]


def test_of_drivers_with_the_same_batch_exactly_one_commits(place: Place) -> None:
    """Two drivers on one checkpoint run the same batches; the first commit also creates the table."""
    for number in range(5):
        outcomes: list[bool] = []
        ready = threading.Barrier(3)

        def race(number: int = number, ready: threading.Barrier = ready, outcomes: list[bool] = outcomes) -> None:
            files = written(place, [number], batch=number)
            ready.wait()
            outcomes.append(append(place, BatchName("query", number), files, DELTA_SCHEMA))

        threads = [threading.Thread(target=race) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False, False, True]
    assert offsets_in(place) == list(range(5))
    assert batches_in_history(place) == [("query", number) for number in range(5)]


def test_a_commit_that_lost_a_race_to_another_writer_goes_through(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction and other queries commit in between; the batch is not in the table, so it is tried again."""
    commit(place, 0, [0])
    finds = iter([lambda: commit(place, 0, [100], "other"), lambda: commit(place, 1, [101], "other")])

    def late(found: DeltaTable | None) -> DeltaTable | None:
        for disturb in finds:
            monkeypatch.undo()
            disturb()
            _after_find(monkeypatch, late)
            break
        return found

    _after_find(monkeypatch, late)
    assert commit(place, 1, [1])
    monkeypatch.undo()
    assert offsets_in(place) == [0, 1, 100, 101]


def _after_find(monkeypatch: pytest.MonkeyPatch, then: Callable[[DeltaTable | None], DeltaTable | None]) -> None:
    """Calls `then` between the lookup of the table and the commit."""
    find = Place.find
    monkeypatch.setattr(Place, "find", lambda place: then(find(place)))


def test_endless_conflicts_end_with_a_clear_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that only looks like a conflict must not hang the query."""
    commit(place, 0, [0])
    old = DeltaTable(place.uri)
    commit(place, 1, [1])
    monkeypatch.setattr(transactions, "ATTEMPTS_MAX", 3)
    monkeypatch.setattr(Place, "find", lambda _: old)
    with pytest.raises(TableError) as raised:
        commit(place, 2, [2])
    assert raised.value.condition == "TABLE_CONTENDED"
    assert (raised.value.parameters["batch"], raised.value.parameters["attempts"]) == (2, 3)


def test_the_numbers_survive_checkpoints_and_cleaning_of_the_log(place: Place) -> None:
    """A log forgets old commits once a checkpoint holds their sum; the sum must still know the batch."""
    for number in range(12):
        commit(place, number, [number])
    DeltaTable(place.uri).create_checkpoint()
    for entry in sorted((Path(place.uri) / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    assert not commit(place, 11, [11])
    assert offsets_in(place) == list(range(12))


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["before files", "before commit", "after commit", "twice", "done"]), max_size=12))
def test_any_history_of_crashes_leaves_each_offset_once(crashes: list[str]) -> None:
    """The model of a stream: a batch is repeated until its driver lived through it, then the next one comes."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        place = Place.of(f"{folder}/table")
        number = 0
        for crash in [*crashes, "done"]:
            try:
                _run_batch(place, number, crash)
            except Died:
                continue
            number += 1
        assert offsets_in(place) == list(range(number * 2))
        assert batches_in_history(place) == [("query", each) for each in range(number)]


def _run_batch(place: Place, number: int, crash: str) -> None:
    if crash == "before files":
        raise Died
    files: list[DataFile] = written(place, [number * 2, number * 2 + 1], batch=number)
    if crash == "before commit":
        raise Died
    append(place, BatchName("query", number), files, DELTA_SCHEMA)
    if crash == "twice":
        append(place, BatchName("query", number), files, DELTA_SCHEMA)
    if crash == "after commit":
        raise Died


def test_a_lost_answer_does_not_write_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit may go through and still be reported as failed: the same files must not be added again."""
    commit(place, 0, [0])
    real = DeltaTable.create_write_transaction
    rng = random.Random(7)
    lost = []

    def flaky(table: DeltaTable, *args: object, **kwargs: object) -> None:
        real(table, *args, **kwargs)
        if rng.random() < 0.5:
            lost.append(table.version())
            raise transactions.CommitFailedError("the answer was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", flaky)
    for number in range(1, 9):
        commit(place, number, [number])
    assert lost
    assert offsets_in(place) == list(range(9))


def test_a_note_is_kept_with_its_commit_and_found_behind_later_ones(place: Place) -> None:
    """It shows which inputs a result was computed from; compaction commits without a note."""
    append(place, None, written(place, [0]), DELTA_SCHEMA, notes={"inputs": "a"})
    append(place, None, written(place, [1]), DELTA_SCHEMA, replace=True, notes={"inputs": "b"})
    append(place, BatchName("query", 0), written(place, [2]), DELTA_SCHEMA)
    assert newest_note(place.load(), "inputs") == "b"
    assert newest_note(place.load(), "other") is None
