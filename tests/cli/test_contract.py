"""`chronik contract check`: which stored records a schema refuses, for people, programs and CI."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytest.importorskip("duckdb")
pytest.importorskip("jsonschema")

Unique = Callable[[str], str]


@pytest.fixture
def topic(chronik: Run, unique: Unique) -> str:
    name = unique("contract")
    chronik("topic", "create", name)
    values = [b'{"id": %d, "city": "Ulm"}' % number for number in range(6)]
    values[2], values[4] = b'{"id": "2"}', b"{"
    assert chronik("produce", name, stdin=b"\n".join(values) + b"\n").exit_code == 0
    return name


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "s.json"
    file.write_text('{"required": ["city"], "properties": {"id": {"type": "integer"}}}')
    return file


def test_what_a_schema_refuses(chronik: Run, topic: str, schema: Path) -> None:
    """Counts by rule, the first record with its place and time, and exit code 1."""
    done = chronik("contract", "check", topic, "--schema", str(schema))
    assert done.exit_code == 1
    assert f"refuses 2 of 6 records of {topic}." in done.out
    assert f"The first is {topic}-0@2, " in done.out
    told = chronik("contract", "check", topic, "--schema", str(schema), "--format", "json").json
    assert (told["records"], told["broken"]) == (6, 2)
    assert {row["rule"]: (row["records"], row["offset"]) for row in told["rules"]} == {
        "$.city: required": (1, 2),
        "$.id: type integer": (1, 2),
        "$: JSON": (1, 4),
    }
    assert told["first"]["rules"] == ["$.city: required", "$.id: type integer"]
    assert (told["first"]["partition"], told["first"]["offset"]) == (0, 2)
    assert told["first"]["time"].endswith("Z")


def test_all_fit(chronik: Run, topic: str, tmp_path: Path, schema: Path) -> None:
    """Exit code 0; and only the requested records are read."""
    done = chronik("contract", "check", topic, "--schema", str(schema), "--last", "1")
    assert (done.exit_code, done.out) == (0, f"{schema} refuses none of 1 record of {topic}.\n")
    assert chronik("contract", "check", topic, "--schema", str(schema), "--max-records", "1").exit_code == 0
    told = chronik("contract", "check", topic, "--schema", str(schema), "--sample", "3", "--format", "json").json
    assert (told["records"], told["sample"], told["broken"]) == (2, 3, 0)


def test_a_pipeline_is_a_schema_too(chronik: Run, topic: str, tmp_path: Path) -> None:
    """The error classes of dead letters."""
    file = tmp_path / "shop.py"
    file.write_text(
        "from chronik.pipeline import bronze\n\n"
        f'@bronze(topic="{topic}", decode="json", schema="id long")\ndef orders(records):\n    return records\n'
    )
    told = chronik("contract", "check", topic, "--schema", str(file), "--format", "json").json
    assert {row["rule"]: row["records"] for row in told["rules"]} == {
        "VALUE_WRONG_TYPE id is no long": 1,
        "VALUE_NOT_JSON": 1,
    }


def test_mistakes_are_named(chronik: Run, topic: str, tmp_path: Path, schema: Path) -> None:
    """The file, the topic, the options."""
    other = tmp_path / "other.json"
    assert "there is no file" in chronik("contract", "check", topic, "--schema", str(other)).err
    other.write_text("{")
    assert "it is not JSON" in chronik("contract", "check", topic, "--schema", str(other)).err
    other.write_text(json.dumps({"type": "text"}))
    assert "$.type" in chronik("contract", "check", topic, "--schema", str(other)).err
    other.write_text("[1]")
    assert chronik("contract", "check", topic, "--schema", str(other)).exit_code == 1
    assert "does not exist" in chronik("contract", "check", f"{topic}x", "--schema", str(schema)).err
    done = chronik("contract", "check", topic, "--schema", str(schema), "--sample", "0")
    assert (done.exit_code, "--sample" in done.err) == (2, True)
    pipeline = tmp_path / "shop.py"
    pipeline.write_text(
        "from chronik.pipeline import bronze\n\n@bronze(topic='a')\ndef a(records):\n    return records\n"
    )
    assert "declares no bronze" in chronik("contract", "check", topic, "--schema", str(pipeline)).err
    folder = chronik("contract", "check", topic, "--schema", str(tmp_path))
    assert folder.exit_code == 1
