"""What may be asked of a table, and how a wrong question is answered."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from chronik.pipeline.tables.errors import CONDITIONS, TableError
from chronik.pipeline.tables.options import OPTIONS, read_options
from chronik.pipeline.tables.order import Keeping
from chronik.pipeline.tables.place import Place

PATH = {"path": "/tables/orders"}
PROVENANCE = ["_topic_id", "_partition", "_offset", "_timestamp"]

REFUSED = [
    ({}, "TABLE_OPTION_MISSING", "path"),
    (PATH | {"mergeschem": "true"}, "TABLE_OPTION_UNKNOWN", "mergeschem"),
    (PATH | {"mode": "upsret"}, "TABLE_OPTION_INVALID", "mode"),
    (PATH | {"mode": "upsert"}, "TABLE_OPTION_MISSING", "keys"),
    (PATH | {"mode": "upsert", "keys": "a, b,a"}, "TABLE_OPTION_INVALID", "keys"),
    (PATH | {"keys": "id"}, "TABLE_OPTIONS_CONFLICT", None),
    (PATH | {"mergeSchema": "yes"}, "TABLE_OPTION_INVALID", "mergeSchema"),
    (PATH | {"versionAsOf": "-1"}, "TABLE_OPTION_INVALID", "versionAsOf"),
    (PATH | {"versionAsOf": "\u0661"}, "TABLE_OPTION_INVALID", "versionAsOf"),
    (PATH | {"timestampAsOf": "yesterday"}, "TABLE_OPTION_INVALID", "timestampAsOf"),
    (PATH | {"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "TABLE_OPTIONS_CONFLICT", None),
    (PATH | {"txnVersion": "1"}, "TABLE_OPTION_MISSING", "txnAppId"),
]


@pytest.mark.parametrize(("given", "condition", "option"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, str], condition: str, option: str | None) -> None:
    """Before anything is read or written."""
    with pytest.raises(TableError) as raised:
        read_options(given)
    assert (raised.value.condition, raised.value.parameters.get("option")) == (condition, option)
    assert str(raised.value).startswith(f"[{condition}] ")


def test_a_misspelt_option_is_answered_with_the_nearest() -> None:
    """An option that is ignored is found out months later."""
    with pytest.raises(TableError, match="did you mean 'partitionBy'"):
        read_options(PATH | {"partitionsBy": "day"})


def test_names_are_read_in_any_case() -> None:
    """Spark hands them over in lower case."""
    options = read_options(
        {
            "PATH": "file:///tables/orders",
            "MODE": "Upsert",
            "keys": "id, region",
            "sequenceby": "at",
            "timestampasof": "2026-01-01T00:00:00",
            "storage.aws_region": "eu-central-1",
            "checkpointlocation": "/checkpoints/orders",
            "compactAbove": "0",
        }
    )
    assert options.place == Place("/tables/orders", {"aws_region": "eu-central-1"})
    assert (options.mode, options.keys, options.sequence_by) == ("upsert", ("id", "region"), ("at",))
    assert (options.timestamp_as_of, options.compact_above) == (datetime(2026, 1, 1, tzinfo=UTC), 0)


def test_the_usual_name_of_the_tombstone_column_needs_no_option() -> None:
    """But a column that is named explicitly must exist."""
    options = read_options(PATH | {"mode": "upsert", "keys": "id"})
    assert options.keeping(["id", *PROVENANCE]) == Keeping(("id",))
    assert options.keeping(["id", "_deleted", *PROVENANCE]) == Keeping(("id",), (), "_deleted")
    named = read_options(PATH | {"mode": "upsert", "keys": "id", "deleteColumn": "gone"})
    with pytest.raises(TableError) as raised:
        named.keeping(["id", "gonne", *PROVENANCE])
    assert raised.value.parameters["hint"] == ": did you mean 'gonne'?"


def test_a_relative_path_is_made_absolute_where_the_query_starts() -> None:
    """Workers may have other working directories."""
    assert Place.of("tables/x").uri.startswith("/")
    assert Place.of("s3://bucket/x").uri == "s3://bucket/x"


def test_errors_travel_from_workers() -> None:
    """Spark pickles exceptions of tasks."""
    error = TableError("TABLE_NOT_FOUND", uri="/x")
    again = pickle.loads(pickle.dumps(error))
    assert again == error
    assert isinstance(again, TableError)


def test_every_option_is_explained() -> None:
    """The table of options is also its documentation."""
    assert all(OPTIONS.values())
    assert len(CONDITIONS) == len(set(CONDITIONS.values()))
