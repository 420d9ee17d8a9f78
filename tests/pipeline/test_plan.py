"""Dry-run: every mistake has a name, a line, and the name that was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import SourceLine
from chronik.pipeline.storage import Storage
from chronik.pipeline.supervisor import application
from tests.pipeline.fakes import FakeCluster, FakeFrames, FakeStorage, plan_of

HEAD = "from chronik.pipeline import bronze, expect, gold, silver, to_topic\n"
RAW = '@bronze(topic="orders")\ndef bronze_orders(records):\n    return records\n'
SILVER = "@silver({})\ndef orders(bronze_orders):\n    return bronze_orders\n"
TABLE = "/lake/tables/orders"


def test_dry_run_names_the_line_that_reads_an_undeclared_table(tmp_path: Path) -> None:
    """The commonest mistake of all, so its answer must be the best."""
    text = HEAD + RAW + "@silver()\ndef orders(bronze_oders):\n    return bronze_oders\n"
    plan = plan_of(tmp_path, text)
    at = SourceLine(str(tmp_path / "shop.py"), 6)
    assert plan.errors == (
        PipelineFault("TABLE_NOT_DECLARED", at=at, nearest="bronze_orders", name="orders", table="bronze_oders"),
    )
    assert "did you mean 'bronze_orders'?" in plan.errors[0].sentence
    assert plan.errors[0].document()["line"] == 6


def test_a_topic_that_access_rules_hide_is_not_called_missing(tmp_path: Path) -> None:
    """A user who is told that it does not exist creates it again, under another name."""
    text = HEAD + RAW + '@to_topic(topic="out")\ndef t(bronze_orders): ...\n'
    plan = plan_of(tmp_path, text, cluster=FakeCluster(names=(), hidden=("orders", "out")))
    assert [error.condition for error in plan.errors] == ["TOPIC_DENIED", "TOPIC_DENIED"]
    assert "may not read orders" in plan.errors[0].sentence
    assert "may not write out" in plan.errors[1].sentence


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (RAW + '@bronze(topic="orders", name="bronze_orders")\ndef again(records): ...\n', "NAME_TAKEN"),
        ('@bronze(topic="orders", name="a-b")\ndef again(records): ...\n', "NAME_INVALID"),
        ('@bronze(topic="orders", name="9a")\ndef again(records): ...\n', "NAME_INVALID"),
        (RAW + "@silver()\ndef s(): ...\n", "NOTHING_READ"),
        (RAW + "@silver()\ndef s(bronze_orders, t): ...\n@silver()\ndef t(bronze_orders): ...\n", "TOO_MANY_READ"),
        ("@silver()\ndef a(b): ...\n@silver()\ndef b(a): ...\n", "CYCLE"),
        ("@silver()\ndef a(a): ...\n", "CYCLE"),
        ("@silver()\ndef a(b): ...\n@silver()\ndef b(a): ...\n@silver()\ndef into(a): ...\n", "CYCLE"),
        (RAW + "@gold()\ndef g(bronze_orders): ...\n@silver()\ndef s(g): ...\n", "GOLD_IS_THE_END"),
        (
            RAW + '@to_topic(topic="orders")\ndef g(bronze_orders): ...\n@silver()\ndef s(g): ...\n',
            "TABLE_NOT_DECLARED",
        ),
        ('@bronze(topic="orders", decode="xml")\ndef b(records): ...\n', "OPTION_INVALID"),
        ('@bronze(topic="orders", decode="json")\ndef b(records): ...\n', "OPTION_INVALID"),
        ('@bronze(topic="orders", unknown_fields="eat")\ndef b(records): ...\n', "OPTION_INVALID"),
        ('@bronze(topic="orders", key="id")\ndef b(records): ...\n', "OPTION_INVALID"),
        (RAW + SILVER.format("keys=['id']"), "OPTION_INVALID"),
        (RAW + SILVER.format("delete_when='_deleted'"), "OPTION_INVALID"),
        (RAW + SILVER.format("expectations=[expect('a', 'x'), expect('a', 'y')]"), "EXPECTATION_TAKEN"),
        (RAW + "@gold(window='5 minutes')\ndef g(bronze_orders): ...\n", "OPTION_INVALID"),
        (RAW + "@gold(watermark=('at', 'soon'))\ndef g(bronze_orders): ...\n", "OPTION_INVALID"),
        ('@bronze(topic="oders")\ndef b(records): ...\n', "TOPIC_NOT_FOUND"),
        (RAW + '@to_topic(topic="nowhere")\ndef t(bronze_orders): ...\n', "TOPIC_NOT_FOUND"),
        (RAW + SILVER.format("keys=['id'], sequence_by='_offset'"), ""),
        (RAW + "@gold()\ndef g(bronze_orders): ...\n@gold()\ndef h(g, bronze_orders): ...\n", ""),
    ],
)
def test_declarations_that_make_no_sense_have_a_name(tmp_path: Path, text: str, condition: str) -> None:
    """Programs compare the name; the sentence is for people and may get better."""
    errors = plan_of(tmp_path, HEAD + text).errors
    assert {error.condition for error in errors} == ({condition} if condition else set())
    assert all(error.line for error in errors)


def test_a_cluster_that_is_down_is_one_error(tmp_path: Path) -> None:
    """Not one for each topic that could not be queried."""
    plan = plan_of(tmp_path, HEAD + RAW, cluster=FakeCluster(is_down=True))
    assert [error.condition for error in plan.errors] == ["BROKER_NOT_REACHED"]


@pytest.mark.parametrize(
    ("storage", "condition"),
    [
        (FakeStorage(full=(TABLE,)), "TABLE_NOT_WRITABLE"),
        (FakeStorage(full=("/lake/checkpoints/shop/orders",)), "CHECKPOINT_NOT_WRITABLE"),
        (FakeStorage(local=(TABLE,)), "STORAGE_NOT_SHARED"),
        (FakeStorage(tables=(TABLE,)), "CHECKPOINT_LOST"),
        (FakeStorage(tables=(TABLE,), present=("/lake/checkpoints/shop/orders",)), ""),
        (FakeStorage(), ""),
    ],
)
def test_places_are_looked_at_before_anything_runs(tmp_path: Path, storage: FakeStorage, condition: str) -> None:
    """A lost checkpoint beside a table with rows would write every record a second time."""
    plan = plan_of(tmp_path, HEAD + RAW + SILVER.format(""), storage=storage, master="spark://far:7077")
    assert [error.condition for error in plan.errors] == ([condition] if condition else [])


@pytest.mark.parametrize(
    ("silver", "frames", "condition"),
    [
        ("keys=['idd'], sequence_by='_offset'", FakeFrames(), "COLUMN_NOT_FOUND"),
        ("keys=['id'], sequence_by='when'", FakeFrames(), "COLUMN_NOT_FOUND"),
        ("partition_by=['day']", FakeFrames(), "COLUMN_NOT_FOUND"),
        ("", FakeFrames(loses_lineage=("orders",)), "LINEAGE_LOST"),
        ("expectations=[expect('a', 'nowhere > 1')]", FakeFrames(), "EXPECTATION_INVALID"),
        ("keys=['id'], sequence_by='id', delete_when='nowhere'", FakeFrames(), "EXPECTATION_INVALID"),
        ("keys=['id'], sequence_by='_offset'", FakeFrames(), ""),
    ],
)
def test_columns_are_checked_on_empty_frames(tmp_path: Path, silver: str, frames: FakeFrames, condition: str) -> None:
    """What would stop the first batch is said before it."""
    plan = plan_of(tmp_path, HEAD + RAW + SILVER.format(silver), frames=frames)
    assert [error.condition for error in plan.errors] == ([condition] if condition else [])
    assert all(error.nearest == "id" for error in plan.errors if error.parameters.get("column") == "idd")


def test_a_plan_tells_who_reads_what_and_writes_where(tmp_path: Path) -> None:
    """A reviewer reads the output of `dry-run`."""
    expectation = "expectations=[expect('paid', 'amount > 0', on_fail='dlq')]"
    plan = plan_of(tmp_path, HEAD + RAW + SILVER.format(expectation), storage=FakeStorage(), frames=FakeFrames())
    assert list(plan.lines()) == [
        f"pipeline shop ({tmp_path}/shop.py)",
        "  bronze   bronze_orders: topic orders (3 partitions) -> table /lake/tables/bronze_orders",
        "           columns id bigint, _topic_id bigint, _partition bigint, _offset bigint, _timestamp bigint",
        "  silver   orders: bronze_orders -> table /lake/tables/orders",
        "           expects paid: amount > 0 (else dlq)",
        "           columns id bigint, _topic_id bigint, _partition bigint, _offset bigint, _timestamp bigint",
    ]
    [_, silver] = plan.document()["flows"]
    assert (silver["group"], silver["dead_letters"]) == ("shop.orders", "orders.dlq")
    assert silver["checkpoint"] == "/lake/checkpoints/shop/orders"


def test_a_storage_says_why_it_cannot_be_written_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A dry-run may be run against production, a thousand times."""
    storage = Storage(tmp_path / "lake")
    assert storage.why_not_writable(str(tmp_path / "lake/tables/a")) == ""
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lake").write_text("a file")
    assert "is not a folder" in storage.why_not_writable(str(tmp_path / "lake/tables/a"))
    assert storage.why_not_shared("/tmp/lake/a", "spark://far:7077")
    assert not storage.why_not_shared("/tmp/lake/a", "local[2]")
    assert not storage.why_not_shared("/mnt/lake/a", "yarn")


@pytest.mark.parametrize(
    "given", ["s3://bucket/lake", Path("s3://bucket/lake"), "/here/s3:/bucket/lake", "abfss://a/b"]
)
def test_a_storage_that_is_an_address_is_refused(given: str | Path) -> None:
    """As a path it would be a folder of this machine, although users expect the tables in the bucket."""
    with pytest.raises(PipelineFault, match="mounted") as refused:
        Storage(given)
    assert refused.value.condition == "STORAGE_NOT_A_FOLDER"
    with pytest.raises(PipelineFault):
        application("b:1", Path(given), None)


@pytest.mark.parametrize("given", ["/mnt/lake", "file:///mnt/lake", Path("/mnt/lake")])
def test_a_storage_may_be_named_as_a_file_address(given: str | Path) -> None:
    """Spark's users write paths so."""
    assert Storage(given).root == "/mnt/lake"
