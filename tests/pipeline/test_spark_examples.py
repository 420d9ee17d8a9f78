"""The examples do what their first lines say, and a new pipeline is right from the start."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from chronik.pipeline.events import BATCH, read_events
from chronik.pipeline.fixtures import run_fixtures
from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.pipeline.registry import load_module
from chronik.pipeline.replaying import load_fix
from chronik.pipeline.report import report
from chronik.pipeline.template import write_template
from chronik.testing import Cluster
from tests.house.repository import ROOT, SOURCE
from tests.pipeline.batch_writer import visible
from tests.pipeline.pipelines import Bench, as_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.xdist_group("spark"),
]

EXAMPLES = ROOT / "examples"


@pytest.fixture
def example(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> Callable[..., tuple[Bench, dict[str, str]]]:
    """An example with its own topics, so that tests can share a broker."""

    def make(name: str, *topics: str, partitions: int = 1) -> tuple[Bench, dict[str, str]]:
        text = (EXAMPLES / name / "pipeline.py").read_text()
        cluster = LiveCluster(our_broker.bootstrap)
        names = {topic: unique(topic) for topic in topics}
        for topic, own in names.items():
            text = text.replace(f'topic="{topic}"', f'topic="{own}"')
            cluster.create_topic(own, partitions)
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        return Bench(spark, cluster, file, tmp_path / "lake"), names

    return make


def test_examples_and_template_are_right_on_their_own_fixtures(spark: SparkSession, tmp_path: Path) -> None:
    """`chronik pipeline test` is a user's first attempt; it must be able to fail, too."""
    [file, *_] = write_template(tmp_path / "new")
    for path in (EXAMPLES / "orders_cdc/pipeline.py", file):
        results = {result.name: result for result in run_fixtures(spark, path)}
        assert [name for name, result in results.items() if not result.is_right] == []
        assert results["orders"].is_compared
        assert results["orders"].dead == {"EXPECTATION_FAILED": 1}
    (tmp_path / "new/expected/spending.jsonl").write_text('{"customer": "ada", "spent": 13.5}\n')
    wrong = {result.name: result for result in run_fixtures(spark, file)}["spending"]
    assert (wrong.missing, wrong.surplus) == (
        [{"customer": "ada", "spent": 13.5}],
        [{"customer": "ada", "spent": 12.5}],
    )
    assert "spending: 1 rows: NOT as expected" in list(wrong.lines())


def test_orders_are_as_they_are_now_and_a_replay_mends_them(example: Callable[..., Any]) -> None:
    """The whole story of the example: changes, tombstones, dead letters, replay, a view, and a report of the run."""
    shop, topics = example("orders_cdc", "orders")
    fixture = (EXAMPLES / "orders_cdc/fixtures/orders.jsonl").read_text().splitlines()
    for line in fixture:
        record = json.loads(line)
        key, value = record["key"], record["value"]
        text = None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()
        shop.send(topics["orders"], [(None if key is None else key.encode(), text)])
    run = shop.run()
    assert {row["id"]: row["amount"] for row in shop.rows("orders")} == {1: 12.5, 3: 7.5}
    assert shop.rows("spending") == [{"customer": "ada", "spent": 20.0, "orders": 2}]
    told = shop.replay("orders", load_fix(EXAMPLES / "orders_cdc/fix.py"))
    assert (told.letters, told.added, told.still_dead) == (1, 1, 0)
    assert {row["id"]: row["amount"] for row in shop.rows("orders")} == {1: 12.5, 3: 7.5, 4: 1.0}
    events = read_events(shop.cluster, "orders_cdc")
    batches = [event for event in events if event.kind == BATCH and event.run_id == run.run_id]
    counted = {event.flow: (event.rows_in, event.rows_out, event.rows_dead) for event in batches if event.rows_in}
    assert counted["order_changes"] == (10, 7, 3)
    assert counted["orders"] == (7, 6, 1)
    html = report("orders_cdc", [event for event in events if event.run_id == run.run_id])
    assert html.count("<svg") >= 4
    assert "status is known" in html


def test_windows_close_after_the_watermark_and_later_clicks_are_counted(example: Callable[..., Any]) -> None:
    """Rows up to ten minutes late are in time; later ones are in no window, and are counted as late."""
    site, topics = example("clickstream", "clicks", "views")

    def click(minute: int, page: str = "a", visitor: str = "ada") -> tuple[None, bytes]:
        return None, as_json(page=page, visitor=visitor, at=f"2026-01-01T10:{minute:02}:00Z")

    site.send(topics["clicks"], [click(1), click(2), click(3, "b"), click(4, visitor="bot7")])
    site.send(topics["clicks"], [click(12), click(2), click(3), click(16)])  # two late ones, in time
    site.send(topics["clicks"], [click(31), click(32), click(33), click(34)])
    site.send(topics["clicks"], [click(1), click(59), click(59), click(59)])  # and one that is not
    run = site.run(only="page_views", offsets_per_batch_max=4)
    found = {(row["window_start"].minute, row["page"]): row["views"] for row in site.rows("page_views")}
    assert {key: found[key] for key in ((0, "a"), (0, "b"), (10, "a"), (15, "a"))} == {
        (0, "a"): 4,
        (0, "b"): 1,
        (10, "a"): 1,
        (15, "a"): 1,
    }
    assert run.standings["page_views"].rows_late == 1
    site.run(only="views_out")
    ends = site.cluster.ends(topics["views"])
    assert len(visible(site.cluster.bootstrap, topics["views"], len(ends))) == 15  # all but the robot's


def test_metrics_go_from_a_page_to_a_plot(example: Callable[..., Any]) -> None:
    """Three files of an example that must fit together."""
    site, topics = example("telemetry", "metrics")
    scrape = load_module(EXAMPLES / "telemetry/scrape.py")
    page = '# TYPE bytes_in gauge\nbytes_in{{listener="a"}} {0}\n# TYPE broken gauge\nbroken NaN\n'
    for minute in range(3):
        moment = datetime(2026, 1, 1, 10, minute, tzinfo=UTC)
        site.cluster.send(topics["metrics"], scrape.samples_of(page.format(minute * 10), moment))
    site.run(only="metrics")
    assert [row["value"] for row in sorted(site.rows("metrics"), key=lambda row: row["at"])] == [0, 10, 20]
    plot = load_module(EXAMPLES / "telemetry/plot.py")
    drawn = plot.plot(str(site.storage / "tables/metrics"))
    assert drawn.count("<circle") == 3
    assert "bytes_in" in drawn


@pytest.mark.timeout(900)
def test_a_topic_is_a_table_of_sparks_own_declarative_pipelines(
    our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """`spark-pipelines run` on our template, with the documented settings: the format is found there too, and a second
    run continues where the first one ended."""
    cluster, topic = LiveCluster(our_broker.bootstrap), unique("orders")
    cluster.create_topic(topic, 2)
    folder = tmp_path / "spark_pipelines"
    shutil.copytree(EXAMPLES / "spark_pipelines", folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/chronik-spark-pipelines", f"file://{tmp_path}/storage"))
    environment = os.environ | {
        "CHRONIK_BOOTSTRAP": our_broker.bootstrap,
        "CHRONIK_TOPIC": topic,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    [words] = re.findall(r"spark-pipelines (run .*)", spec.read_text())
    command = [str(Path(sys.executable).with_name("spark-pipelines")), *words.split()]
    for _ in range(2):
        cluster.send(topic, [Outgoing(b"%d" % number, b"{}") for number in range(50)])
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        ends = cluster.ends(topic)
        rows = {
            table: pq.ParquetDataset(sorted((folder / "spark-warehouse" / table).glob("*.parquet"))).read().to_pylist()
            for table in ("order_records", "order_count")
        }
        assert sorted((row["partition"], row["offset"]) for row in rows["order_records"]) == [
            (partition, offset) for partition, end in sorted(ends.items()) for offset in range(end)
        ]
        assert {row["partition"]: row["records"] for row in rows["order_count"]} == ends
