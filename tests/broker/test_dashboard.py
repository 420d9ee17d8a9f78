"""The dashboard, the alert rules and the reference in docs/ name the metrics that a node has, and all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from tests.broker.hostile import World, run
from tests.broker.test_admin import Browser

DOCS = Path(__file__).parents[2] / "docs"
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
WITH_TLS = {"chronik_certificate_expiry_days"}
_metric = re.compile(r"\b(?:chronik|kafka|metadata|topic|lease|leader)_[a-z_]+")
_family = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
_row = re.compile(r"^\| `([a-z_]+)` \| ([a-z]+) \| [a-z_, ]*\| .+ \| .*\|$", re.MULTILINE)


def named_in(expressions: list[str]) -> set[str]:
    return {name.removesuffix("_bucket") for expression in expressions for name in _metric.findall(expression)}


def dashboard() -> set[str]:
    panels = json.loads((DOCS / "grafana.json").read_text())["panels"]
    return named_in([target["expr"] for panel in panels for target in panel["targets"]])


def alerts() -> list[dict[str, object]]:
    [group] = yaml.safe_load((DOCS / "alerts.yml").read_text())["groups"]
    rules: list[dict[str, object]] = group["rules"]
    return rules


def served() -> dict[str, str]:
    """Types of all metrics by name, also of those without samples: no group has lag before there are groups."""
    text = ""

    async def test() -> None:
        nonlocal text
        world = await World.make()
        _, text = await Browser(world.node).get("/metrics")

    run(test())
    return dict(_family.findall(text))


def test_every_number_on_the_dashboard_and_in_the_alerts_is_there() -> None:
    """A panel or alert for a renamed metric is empty, and looks as if everything were healthy."""
    known = served().keys() | WITH_TLS
    assert dashboard() <= known
    assert named_in([str(rule["expr"]) for rule in alerts()]) <= known


def test_the_quorums_numbers_are_on_the_dashboard() -> None:
    assert dashboard() >= PROMISED


def test_every_alert_says_what_to_do() -> None:
    """The reader of an alert at night may never have seen it before."""
    for rule in alerts():
        assert rule.keys() >= {"alert", "expr", "labels", "annotations"}
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        assert annotations.keys() == {"summary", "action"}


def test_the_reference_lists_every_metric_with_its_type() -> None:
    documented = dict(_row.findall((DOCS / "reference" / "metrics.md").read_text()))
    assert documented.keys() - WITH_TLS == served().keys()
    assert {name: kind for name, kind in documented.items() if name not in WITH_TLS} == served()
