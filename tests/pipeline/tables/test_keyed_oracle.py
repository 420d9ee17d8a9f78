"""A keyed table equals a dict of the same records, whatever the partitions, the batches and the order of arrival."""

from __future__ import annotations

import random
import tempfile

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.pipeline.tables.deletions import place_of, tidy
from chronik.pipeline.tables.maintenance import vacuum
from chronik.pipeline.tables.order import Keeping, last_per_key, last_per_position, living
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.upserting import merge
from tests.pipeline.tables import keyed_histories
from tests.pipeline.tables.keyed_histories import SCHEMA, Hard, History, Record, told

STORED = Schema.from_arrow(pa.schema([field for field in SCHEMA if field.name != "_deleted"]))
BY_LOG = Keeping(("id",), ("_offset",), "_deleted")
BY_SEQUENCE = Keeping(("id",), ("updated",), "_deleted")
KINDS = [(BY_LOG, hard) for hard in keyed_histories.BY_LOG]
KINDS += [(BY_SEQUENCE, hard) for hard in keyed_histories.BY_SEQUENCE]
HISTORIES = pytest.mark.parametrize(
    ("keeping", "hard"), KINDS, ids=[f"{keeping.sequence_by[0]}-{'-'.join(sorted(hard))}" for keeping, hard in KINDS]
)


def contents(place: Place) -> dict[int, str]:
    rows = DeltaTable(place.uri).to_pyarrow_table().to_pylist()
    assert len({each["id"] for each in rows}) == len(rows), "a key is there twice"
    return {each["id"]: each["value"] for each in rows}


def parts_of(rows: pa.Table, rng: random.Random, keeping: Keeping) -> pa.Table:
    """As tasks hand a batch over: in two parts, each reduced on its own."""
    cut = rng.randrange(rows.num_rows + 1)
    return pa.concat_tables([last_per_position(part, keeping) for part in (rows[:cut], rows[cut:])])


@HISTORIES
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_a_table_equals_a_dict_after_every_batch(keeping: Keeping, hard: set[Hard], seed: int) -> None:
    """Keys move between partitions, updates and deletions come late, batches are repeated, and at some point the whole
    topic so far is sent through once more, as a backfill does."""
    rng = random.Random(seed)
    history = History(rng, rng.randrange(30), hard)
    with tempfile.TemporaryDirectory() as folder:
        place = Place.of(f"{folder}/table")
        read: list[Record] = []
        backfilled = rng.randrange(4)
        for number, batch in enumerate(history.batches(4)):
            read += batch
            for _ in range(rng.choice([1, 2])):
                rows = parts_of(history.table(batch), rng, keeping)
                merge(place, BatchName("query", number), rows, STORED, keeping)
            if number == backfilled:
                merge(place, BatchName("backfill", 0), history.table(read), STORED, keeping)
            assert contents(place) == told(read, by_sequence=keeping is BY_SEQUENCE)


@HISTORIES
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32))
def test_the_rule_itself_equals_a_dict(keeping: Keeping, hard: set[Hard], seed: int) -> None:
    """Without Delta, over longer histories: the table's rows and remembered deletions suffice to apply the next
    batch."""
    rng = random.Random(seed)
    history = History(rng, rng.randrange(80), hard, keys=9)
    table = remembered = SCHEMA.empty_table()
    read: list[Record] = []
    for batch in history.batches(6):
        read += batch
        rows = last_per_key(parts_of(history.table(batch), rng, keeping), keeping)
        remembered = pa.concat_tables([remembered, rows.filter(rows["_deleted"])])
        table = living(pa.concat_tables([remembered, table, rows]), keeping)
        found = {each["id"]: each["value"] for each in table.to_pylist()}
        assert found == told(read, by_sequence=keeping is BY_SEQUENCE)


def one(produced: int, key: int, partition: int, offset: int, updated: int | None = 0) -> Record:
    return Record(produced, key, partition, offset, updated, is_deletion=False)


def gone(produced: int, key: int, partition: int, offset: int, updated: int | None = None) -> Record:
    return Record(produced, key, partition, offset, updated, is_deletion=True)


def written(place: Place, keeping: Keeping, *batches: list[Record]) -> dict[int, str]:
    """The table after these batches, each with times in the order of production."""
    history = History(random.Random(0), 0, ())
    history.times_ms = list(range(100))
    for number, batch in enumerate(batches):
        merge(place, BatchName("query", number), history.table(batch), STORED, keeping)
    return contents(place)


@pytest.fixture
def place(tmp_path: object) -> Place:
    return Place.of(f"{tmp_path}/table")


@pytest.mark.parametrize("keeping", [BY_LOG, Keeping(("id",), (), "_deleted")], ids=["named", "left out"])
def test_an_update_in_a_new_partition_counts_though_its_offset_is_low(place: Place, keeping: Keeping) -> None:
    """Partitions are added, the key moves, and the new partition begins at offset 0."""
    assert written(place, keeping, [one(1, 7, 0, 99)], [one(2, 7, 1, 0)]) == {7: "v2"}


def test_a_tombstone_in_a_new_partition_deletes(place: Place) -> None:
    """Its offset is lower than that of the row it ends."""
    assert written(place, BY_LOG, [one(1, 7, 0, 99)], [gone(2, 7, 1, 0)]) == {}


def test_a_partition_that_is_read_late_brings_no_old_row_back(place: Place) -> None:
    """The new partition is short and is read at once; the old one is long."""
    assert written(place, BY_LOG, [one(2, 7, 1, 0)], [one(1, 7, 0, 99)]) == {7: "v2"}


def test_a_late_update_does_not_bring_a_deleted_row_back(place: Place) -> None:
    """The deletion is newer, and only the table's memory of it can tell."""
    batches = [[one(1, 7, 0, 0, updated=3)], [gone(2, 7, 0, 1, updated=10)], [one(3, 7, 0, 2, updated=5)]]
    assert written(place, BY_SEQUENCE, *batches) == {}
    assert written(place, BY_SEQUENCE, *batches, [one(4, 7, 0, 3, updated=11)]) == {7: "v4"}


def test_deletions_survive_upkeep_and_are_forgotten_when_they_are_old(place: Place) -> None:
    """Vacuum must not treat them as unreferenced files; they are not kept forever."""
    late = one(2, 7, 0, 2, updated=5)
    written(place, BY_SEQUENCE, [gone(1, 7, 0, 1, updated=10)])
    vacuum(place, keep_hours=0, longest_batch_hours=0)
    tidy(place, above=0)
    assert written(place, BY_SEQUENCE, [], [late]) == {}
    tidy(place, above=0, kept_hours=-1)
    assert DeltaTable(place_of(place).uri).to_pyarrow_table().num_rows == 0
    assert written(place, BY_SEQUENCE, [], [], [late]) == {7: "v2"}


def test_readers_of_the_table_do_not_see_its_deletions(place: Place) -> None:
    """They are in a folder of the table, so that moving the table includes them."""
    written(place, BY_LOG, [one(1, 7, 0, 0), gone(2, 8, 0, 1)])
    assert place_of(place).uri.startswith(place.uri)
    assert contents(place) == {7: "v1"}
