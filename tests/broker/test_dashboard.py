"""The dashboard in docs/ shows numbers that a node has, and all that operators of the quorum were promised."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.broker.hostile import World, run
from tests.broker.test_admin import scrape

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
PROMISED = {
    "metadata_write_latency_ms",
    "metadata_read_latency_ms",
    "topic_creation_throughput",
    "metadata_split_brain_detected",
    "metadata_replication_lag_ms",
    "lease_expiration_count",
    "metadata_wal_write_errors",
    "metadata_replication_errors",
    "leader_heartbeat_failures",
}
_metric = re.compile(r"\b(?:kafka|metadata|topic|lease|leader)_[a-z_]+")


def shown() -> set[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {name for panel in panels for target in panel["targets"] for name in _metric.findall(target["expr"])}


def test_every_number_on_the_dashboard_is_there() -> None:
    """A panel of a metric that was renamed is empty, and looks as if all were well."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.produce()
        scraped = {name for name, _ in await scrape(world.node)}
        assert shown() <= scraped, shown() - scraped

    run(test())


def test_the_quorums_numbers_are_on_it() -> None:
    assert {name.removesuffix("_bucket") for name in shown()} >= PROMISED
