"""Compactions and commits of a table keep out of each other's way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from chronik.pipeline.tables import maintenance
from chronik.pipeline.tables.exclusion import committing, compacting
from chronik.pipeline.tables.place import Place

FILES = 12


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for number in range(FILES):
        write_deltalake(str(tmp_path / "table"), pa.table({"id": [number]}), mode="append")
    return Place.of(str(tmp_path / "table"))


def test_two_compactions_at_once_double_no_row(place: Place) -> None:
    """The library would let both commit."""
    with compacting(place) as is_alone:
        assert is_alone
        assert not maintenance.compact(place, above=9)
    assert maintenance.compact(place, above=9)
    assert not maintenance.compact(place, above=9)
    rows = DeltaTable(place.uri).to_pyarrow_table()["id"].to_pylist()
    assert sorted(rows) == list(range(FILES))


def test_commits_share_and_a_compaction_waits_for_another_time(place: Place) -> None:
    with committing(place), committing(place), compacting(place) as is_alone:
        assert not is_alone
    with compacting(place) as is_alone:
        assert is_alone


def test_a_table_elsewhere_is_not_compacted_by_its_writers() -> None:
    """There is no lock that all its writers see."""
    with compacting(Place("s3://bucket/table")) as is_alone:
        assert not is_alone
