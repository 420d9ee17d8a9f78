"""Flows on a real Spark against a real broker: every record is in the table or among the dead letters, once."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from chronik.pipeline import batches, table_writes
from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.live_cluster import LiveCluster
from chronik.testing import Cluster
from tests.pipeline.pipelines import Bench, as_json, positions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chronik.pipeline.letters import Letter

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

SHOP = """
from chronik.pipeline import bronze, expect, silver

@bronze(topic="{topic}", decode="json", key="id long", schema="amount double, at timestamp", {more})
def changes(records):
    return records

@silver(keys=["id"], sequence_by="at", delete_when="_deleted",
        expectations=[expect("not negative", "amount >= 0", on_fail="dlq"), expect("small", "amount < 900")])
def orders(changes):
    return changes
"""
T0 = "2026-01-01T00:00:00Z"
# What producers really send, with the class under which each is found again.
POISON: list[tuple[bytes | None, bytes | None, str]] = [
    (b"1", b'{"amount": 1, "at": "2026-', "VALUE_NOT_JSON"),
    (b"2", as_json(amount="1.5", at=T0), "VALUE_WRONG_TYPE"),
    (b"3", as_json(amount=1.5, at="yesterday"), "VALUE_WRONG_TYPE"),
    (b"4", b"\xff\xfe\x00", "VALUE_NOT_UTF8"),
    (b"5", b"[1]", "VALUE_NOT_JSON"),
    (b"6", b"", "VALUE_NOT_JSON"),
    (b"7", b'{"amount": 1} {"amount": 2}', "VALUE_NOT_JSON"),
    (None, as_json(amount=1.5, at=T0), "KEY_MISSING"),
    (b"eight", as_json(amount=1.5, at=T0), "KEY_MALFORMED"),
    (b"\xff", None, "KEY_MALFORMED"),
]


def at(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


@pytest.fixture
def bench(spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path) -> Callable[..., Any]:
    """Creates a pipeline file from a template, with a separate topic."""

    def make(template: str = SHOP, partitions: int = 2, more: str = "") -> tuple[Bench, str]:
        topic = unique("shop")
        cluster = LiveCluster(our_broker.bootstrap)
        cluster.create_topic(topic, partitions)
        file = tmp_path / "shop.py"
        file.write_text(template.replace("{topic}", topic).replace("{more}", more))
        return Bench(spark, cluster, file, tmp_path / "lake"), topic

    return make


def test_poison_stops_nothing_loses_nothing_and_can_be_mended(bench: Callable[..., Any]) -> None:
    """One record in a hundred is invalid: table and letters together equal the topic, and a replay completes the table.

    Keys repeat, values get new fields half-way, some records are tombstones and one is huge: the keyed table must equal
    a dict of the same records.
    """
    shop, topic = bench()
    good: list[tuple[bytes, bytes | None]] = []
    for index in range(1000):
        fields: dict[str, Any] = {"amount": float(index), "at": at(index)}
        if index > 500:
            fields["channel"] = "web"  # the schema changes in mid-stream
        if index == 700:
            fields["channel"] = "x" * 900_000  # the largest that fits
        good.append((b"%d" % (index % 300), None if index % 97 == 0 else as_json(**fields)))
    shop.send(topic, good[:500])
    shop.send(topic, [(key, value) for key, value, _ in POISON])
    shop.send(topic, good[500:])
    run = shop.run()

    changes, letters = shop.rows("changes"), shop.letters(f"{topic}.dlq", "changes")
    assert len(changes) + len(letters) == len(good) + len(POISON)
    assert len(set(positions(changes)) | set(positions(letters))) == len(good) + len(POISON)
    assert sorted(letter.error for letter in letters) == sorted(error for _, _, error in POISON)
    assert {(letter.key, letter.value) for letter in letters} == {(key, value) for key, value, _ in POISON}
    assert {letter.topic_id for letter in letters} == {row["_topic_id"] for row in changes}
    unknown = [row["_unknown"] for row in changes if row["_unknown"] is not None]
    assert len(unknown) == sum(value is not None for _, value in good[501:])
    assert max(map(len, unknown)) > 900_000

    oracle: dict[int, float] = {}
    for key, value in good:
        if value is None:
            oracle.pop(int(key), None)
        else:
            oracle[int(key)] = json.loads(value)["amount"]
    assert {row["id"]: row["amount"] for row in shop.rows("orders")} == oracle

    standing = run.standings["changes"]
    assert (standing.rows_in, standing.rows_out, standing.rows_dead) == (1010, 1000, 10)
    assert run.standings["orders"].failed == {"small": sum(value is not None for _, value in good[900:])}
    # The query's own progress, the group that every Kafka tool sees, and the topic's end agree: nothing is left.
    assert standing.lag is not None
    assert (standing.lag.messages, shop.cluster.lag_of("shop.changes", topic).messages) == (0, 0)

    def fix(letter: Letter) -> Letter | None:
        if letter.value is None:
            return None
        return dataclasses.replace(letter, key=b"77", value=as_json(amount=0.5, at=T0))

    once = shop.replay("changes", fix)
    assert (once.letters, once.added, once.still_dead) == (10, 9, 1)
    again = shop.replay("changes", fix)
    assert (again.letters, again.added, again.still_dead) == (10, 0, 1)
    assert len(shop.rows("changes")) == 1009
    assert len(set(positions(shop.rows("changes")))) == 1009


@pytest.mark.long
def test_a_crash_between_letters_and_commit_neither_loses_nor_repeats(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one moment in which a batch has written something and does not count as done."""
    shop, topic = bench()
    shop.send(topic, [(b"%d" % index, as_json(amount=index, at=T0)) for index in range(50)])
    shop.send(topic, [(key, value) for key, value, _ in POISON])

    def crash(*given: object) -> int:
        raise PipelineFault("FLOW_STOPPED", name="changes", reason="the power went out")

    with monkeypatch.context() as patched:
        patched.setattr(batches.table_writes, "write", crash)
        with pytest.raises(PipelineFault, match="the power went out"):
            shop.run(only="changes")
    assert len(shop.letters(f"{topic}.dlq")) == len(POISON)
    assert table_writes.version_of(str(shop.storage / "tables/changes")) == -1
    shop.run(only="changes")
    assert len(shop.letters(f"{topic}.dlq")) == len(POISON)
    assert len(shop.rows("changes")) == 50
    assert table_writes.version_of(str(shop.storage / "tables/changes")) == 0


@pytest.mark.parametrize(
    ("more", "condition"), [('on_error="fail"', "RECORD_REFUSED"), ('on_error="drop"', None)], ids=["fail", "drop"]
)
def test_what_cannot_be_decoded_may_also_stop_the_flow_or_be_dropped(
    bench: Callable[..., Any], more: str, condition: str | None
) -> None:
    """Stopping writes nothing of the batch; dropping is counted."""
    shop, topic = bench(more=more, partitions=1)
    shop.send(topic, [(b"1", as_json(amount=1, at=T0)), (b"1", b"{")])
    if condition is None:
        standing = shop.run(only="changes").standings["changes"]
        assert (standing.rows_in, standing.rows_out, standing.rows_dropped, standing.rows_dead) == (2, 1, 1, 0)
        return
    with pytest.raises(PipelineFault) as stopped:
        shop.run(only="changes")
    assert (stopped.value.condition, stopped.value.parameters["offset"]) == (condition, 1)
    assert table_writes.version_of(str(shop.storage / "tables/changes")) == -1


ACCOUNTS = """
from pyspark.sql import functions as F
from chronik.pipeline import bronze, gold, silver

@bronze(topic="{topic}", decode="json", schema="id long, op string, at timestamp, n long",
        is_stored=False)
def changes(records):
    return records

@silver(keys=["id"], sequence_by="_offset", delete_when="op = 'd'")
def latest(changes):
    return changes

@silver(keys=["id"], sequence_by="at", delete_when="op = 'd'")
def newest(changes):
    return changes

@gold()
def totals(newest):
    return newest.agg(F.count("*").alias("accounts"), F.sum("n").alias("n"))
"""


def change(account: int | None, n: int, second: int, op: str = "u") -> tuple[bytes, bytes]:
    return b"%d" % (account or 0), as_json(id=account, op=op, at=at(second), n=n)


def test_tables_by_key_and_what_reads_them_stay_true(
    bench: Callable[..., Any], our_broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through what happens to a topic in its life: partitions are added and keys move to low offsets, changes come
    late, one has no key, a table is dropped to be built again, and that in a batch too large for one process."""
    shop, topic = bench(ACCOUNTS, partitions=1)
    shop.send(topic, [change(n % 10, n, n) for n in range(100)])
    shop.run()
    assert shop.rows("totals") == [{"accounts": 10, "n": 945}]

    admin = AdminClient({"bootstrap.servers": our_broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    shop.send(topic, [change(account, 1000 + account, 200) for account in range(10)])
    shop.send(topic, [change(3, 0, 300, "d"), change(4, 0, 300, "d"), change(None, 7, 300)])
    shop.run()
    assert {row["_partition"] for row in shop.rows("latest")} > {0}
    expected = {account: 1000 + account for account in range(10) if account not in (3, 4)}
    assert {row["id"]: row["n"] for row in shop.rows("latest")} == expected
    assert {row["id"]: row["n"] for row in shop.rows("newest")} == expected
    letters = shop.letters(f"{topic}.dlq")
    assert sorted((letter.flow, letter.error) for letter in letters) == [
        ("latest", "KEY_MISSING"),
        ("newest", "KEY_MISSING"),
    ]

    shop.send(topic, [change(3, 5, 250), change(5, 5, 150), change(4, 6, 400)])
    shop.run()
    assert {row["id"]: row["n"] for row in shop.rows("newest")} == expected | {4: 6}
    assert {row["id"]: row["n"] for row in shop.rows("latest")} == expected | {3: 5, 4: 6, 5: 5}

    monkeypatch.setattr(table_writes, "UPSERT_BYTES_MAX", 10)  # from here on, executors do the merging
    [before] = shop.rows("totals")
    shop.send(topic, [change(11, 10_000, 500)])
    shutil.rmtree(shop.storage / "tables/newest")
    shutil.rmtree(shop.storage / "checkpoints/shop/newest")
    shop.run()
    assert shop.rows("totals") == [{"accounts": before["accounts"] + 1, "n": before["n"] + 10_000}]
    assert {row["id"]: row["n"] for row in shop.rows("newest")} == expected | {4: 6, 11: 10_000}
    assert {row["id"]: row["n"] for row in shop.rows("latest")} == expected | {3: 5, 4: 6, 5: 5, 11: 10_000}
    again = shop.replay("newest")
    assert (again.letters, again.added, again.still_dead) == (1, 0, 1)
