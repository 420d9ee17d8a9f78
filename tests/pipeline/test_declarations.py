"""Declarations: frozen values that know their line, from Python and from YAML alike, without Spark."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from chronik.pipeline.conditions import CONDITIONS, PipelineFault
from chronik.pipeline.declarations import Bronze, Declaration, Gold, Silver, SourceLine, ToTopic
from chronik.pipeline.expectations import Expectation, OnFail
from chronik.pipeline.registry import load
from tests.house.repository import SOURCE

SHOP = '''\
"""A shop."""
from chronik.pipeline import bronze, expect, gold, silver, to_topic


@bronze(topic="orders", decode="json", key="id long", schema="amount double, at timestamp")
def raw(records):
    return records


PAID = expect("paid", "amount > 0", on_fail="dlq")
@silver(keys=["id"], sequence_by="at", delete_when="_deleted", expectations=[PAID])
def orders(raw):
    return raw.where("at IS NOT NULL")


@gold(watermark=("at", "10 minutes"), window="5 minutes", partition_by=["window_start"])
def revenue(orders):
    return orders.groupBy("window").sum("amount")


@to_topic(topic="paid", key="id")
def paid(orders):
    return orders
'''
TWIN = """\
bronze:
  - name: raw
    topic: orders
    decode: json
    key: id long
    schema: amount double, at timestamp
    sql: SELECT * FROM {records}
silver:
  - name: orders
    keys: [id]
    sequence_by: at
    delete_when: _deleted
    expectations:
      - {name: paid, condition: amount > 0, on_fail: dlq}
    sql: SELECT * FROM {raw} WHERE at IS NOT NULL
gold:
  - name: revenue
    watermark: [at, 10 minutes]
    window: 5 minutes
    partition_by: [window_start]
    sql: SELECT window, sum(amount) FROM {orders} GROUP BY window
to_topic:
  - name: paid
    topic: paid
    key: id
    sql: SELECT * FROM {orders}
"""


def declared(folder: Path, name: str, text: str) -> list[Declaration]:
    (folder / name).write_text(text)
    return list(load(folder / name))


def without_place(declaration: Declaration) -> Declaration:
    return dataclasses.replace(declaration, transform=None, declared_at=None)


def test_a_file_declares_values_in_order_with_their_lines(tmp_path: Path) -> None:
    """An editor jumps to the `def`, so the line must be that of the function and not of its decorator."""
    raw, orders, revenue, paid = declared(tmp_path, "shop.py", SHOP)
    assert [each.name for each in (raw, orders, revenue, paid)] == ["raw", "orders", "revenue", "paid"]
    file = str(tmp_path / "shop.py")
    assert [each.declared_at for each in (raw, orders, revenue, paid)] == [
        SourceLine(file, 6),
        SourceLine(file, 12),
        SourceLine(file, 17),
        SourceLine(file, 22),
    ]
    assert without_place(orders) == Silver(
        "orders",
        ("raw",),
        keys=("id",),
        sequence_by="at",
        delete_when="_deleted",
        expectations=(Expectation("paid", "amount > 0", OnFail.DLQ),),
    )
    assert isinstance(raw, Bronze)
    assert isinstance(revenue, Gold)
    assert isinstance(paid, ToTopic)
    assert (revenue.reads, revenue.is_stream, paid.topic) == (("orders",), True, "paid")


def test_the_yaml_twin_declares_the_same(tmp_path: Path) -> None:
    """Two ways to write one thing: what differs between them would be a trap."""
    assert [without_place(each) for each in declared(tmp_path, "shop.yaml", TWIN)] == [
        without_place(each) for each in declared(tmp_path, "shop.py", SHOP)
    ]
    assert [each.declared_at.line for each in declared(tmp_path, "shop.yaml", TWIN) if each.declared_at] == [
        2,
        9,
        17,
        23,
    ]


def test_a_declaration_cannot_be_changed(tmp_path: Path) -> None:
    """The plan must be what runs."""
    [raw, *_] = declared(tmp_path, "shop.py", SHOP)
    with pytest.raises(dataclasses.FrozenInstanceError):
        raw.name = "other"  # type: ignore[misc]


def test_two_files_do_not_see_each_other(tmp_path: Path) -> None:
    """The decorators have no global list that a second load could add to."""
    once = declared(tmp_path, "shop.py", SHOP)
    again = declared(tmp_path, "shop.py", SHOP)
    assert len(once) == len(again) == 4


def test_the_pipeline_is_named_after_its_file_or_its_folder(tmp_path: Path) -> None:
    """`orders/pipeline.py` is the usual layout, and "pipeline" would name everything alike."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "kiosk").mkdir()
    (tmp_path / "kiosk/pipeline.py").write_text(SHOP)
    assert load(tmp_path / "shop.py").name == "shop"
    assert load(tmp_path / "kiosk/pipeline.py").name == "kiosk"


@pytest.mark.parametrize(
    ("name", "text", "condition", "line"),
    [
        ("a.py", "x = 1\n", "NOTHING_DECLARED", None),
        ("a.py", "x = 1\n\nx = =\n", "FILE_FAILED", 3),
        ("a.py", "def f():\n    raise ValueError('no')\n\nf()\n", "FILE_FAILED", 2),
        ("a.py", "from chronik.pipeline import expect\nexpect('a', 'b', on_fail='explode')\n", "FILE_FAILED", 2),
        ("a.txt", "", "FILE_NOT_READABLE", None),
        ("a.yaml", "bronze: [\n", "YAML_MALFORMED", 2),
        ("a.yaml", "- 1\n", "YAML_MALFORMED", None),
        ("a.yaml", "bronce:\n  - name: a\n", "YAML_MALFORMED", None),
        ("a.yaml", "bronze:\n  - 7\n", "YAML_MALFORMED", None),
        ("a.yaml", "bronze:\n  - name: a\n    topik: b\n", "YAML_FIELD_UNKNOWN", 2),
        ("a.yaml", "bronze:\n\n  - name: a\n", "YAML_FIELD_MISSING", 3),
        ("a.yaml", "silver:\n  - name: a\n", "YAML_FIELD_MISSING", 2),
        ("a.yaml", "silver:\n  - {name: a, sql: x, expectations: [{name: b}]}\n", "YAML_MALFORMED", 2),
    ],
)
def test_a_file_that_declares_nothing_sensible_says_where(
    tmp_path: Path, name: str, text: str, condition: str, line: int | None
) -> None:
    """A stack trace of ours is no answer to a typing error of theirs."""
    with pytest.raises(PipelineFault) as told:
        declared(tmp_path, name, text)
    assert (told.value.condition, told.value.line) == (condition, line)


def test_a_file_that_is_not_there_is_said_to_be_not_there(tmp_path: Path) -> None:
    """And one that may not be read is not said to be missing."""
    with pytest.raises(PipelineFault) as told:
        load(tmp_path / "nothing.py")
    assert told.value.condition == "FILE_NOT_FOUND"
    with pytest.raises(PipelineFault) as told:
        load(tmp_path)
    assert told.value.condition == "FILE_NOT_READABLE"


def test_declaring_needs_no_spark(tmp_path: Path) -> None:
    """A pipeline file is loaded for its help and its plan where Spark is not installed."""
    (tmp_path / "shop.py").write_text(SHOP)
    script = (
        "import sys; from chronik.pipeline.registry import load; load(sys.argv[1]); import chronik.pipeline.plan;"
        "print(sorted({'pyspark', 'pyarrow', 'deltalake', 'yaml'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "shop.py")]
    assert subprocess.check_output(command, text=True, env={"PYTHONPATH": str(SOURCE)}).strip() == "[]"


def test_every_condition_is_a_sentence_that_can_be_filled() -> None:
    """A message that fails while it is being formatted hides the error that it was to tell."""
    for name, sentence in CONDITIONS.items():
        assert name.isupper()
        assert not sentence.endswith(".")
