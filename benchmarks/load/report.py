"""From figures to a table, a plot and a JSON file. The table says what was met and what was missed, and on what."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from load.servers import KAFKA_VERSION

if TYPE_CHECKING:
    from load.works import Work

MINE, OTHER = "Chronik", "Kafka"
FSYNC_BAR = "fdatasync + "


class Figure(NamedTuple):
    value: float
    cpu_us: float | None
    p99: float | None


class Row(NamedTuple):
    title: str
    unit: str
    more_is_better: bool
    other: Figure | None
    mine: Figure | None
    bar: str

    @property
    def ratio(self) -> float | None:
        """How many times better we are."""
        if self.other is None or self.mine is None or not self.other.value or not self.mine.value:
            return None
        better = self.mine.value / self.other.value
        return better if self.more_is_better else 1 / better

    def is_met(self, fsync_ms: float) -> bool | None:
        """None where there is no bar, or nothing to compare with."""
        if self.mine is None or self.bar == "-":
            return None
        if self.bar.endswith("x"):
            return None if self.ratio is None else self.ratio >= float(self.bar[:-1])
        allowed_ms = float(self.bar.removeprefix(FSYNC_BAR).removesuffix(" ms"))
        return self.mine.value <= allowed_ms + (fsync_ms if self.bar.startswith(FSYNC_BAR) else 0)


class Figures:
    def __init__(self, nodes: int, fsync_ms: float, arguments: str) -> None:
        self.nodes, self.fsync_ms, self.arguments = nodes, fsync_ms, arguments
        self._all: dict[tuple[str, str], list[Figure]] = defaultdict(list)

    def add(self, key: str, server: str, value: float, cpu_us: float | None = None, p99: float | None = None) -> None:
        self._all[key, server].append(Figure(value, cpu_us, p99))

    def of(self, key: str, server: str) -> Figure | None:
        """The median of each."""
        found = self._all.get((key, server))
        if not found:
            return None
        cpu = [each.cpu_us for each in found if each.cpu_us is not None]
        p99 = [each.p99 for each in found if each.p99 is not None]
        return Figure(median(each.value for each in found), median(cpu) if cpu else None, median(p99) if p99 else None)

    def rows(self, works: Sequence[Work]) -> list[Row]:
        which = 0 if self.nodes == 1 else 1
        shown = [
            ("start", "start to first acknowledged message", "s", False, "5x"),
            ("resident", "memory at start, all nodes", "MB", False, "5x"),
            ("loaded", "memory after load, all nodes", "MB", False, "5x"),
            *[(work.key, work.title, work.unit, work.more_is_better, work.bar[which]) for work in works],
        ]
        made = [
            Row(title, unit, more, self.of(key, OTHER), self.of(key, MINE), bar)
            for key, title, unit, more, bar in shown
        ]
        return [row for row in made if row.mine or row.other]


def write(figures: Figures, works: Sequence[Work], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    name = "broker" if figures.nodes == 1 else f"broker-{figures.nodes}"
    rows = figures.rows(works)
    text = table(figures, rows, f"{name}.svg")
    (directory / f"{name}.md").write_text(text)
    (directory / f"{name}.json").write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    plot(rows, directory / f"{name}.svg")
    print(text)


def table(figures: Figures, rows: Sequence[Row], picture: str) -> str:
    nodes = "one node" if figures.nodes == 1 else f"{figures.nodes} nodes, replication factor 3"
    command = f'`make bench-broker ARGS="{figures.arguments}"`' if figures.arguments else "`make bench-broker`"
    fsync = f"one fdatasync of 4 KB takes {figures.fsync_ms:.2f} ms here"
    lines = [
        f"# Chronik beside Kafka {KAFKA_VERSION}, {nodes}",
        "",
        f"{command}, {datetime.now(tz=UTC):%Y-%m-%d}, {machine()}; {fsync}.",
        "Medians; both brokers in one run, taking turns. Chronik acknowledges acks=all after fsync, Kafka before.",
        "Ratios are how many times better Chronik is; CPU is the broker's own, per message, read or topic.",
        "",
        "| work | Kafka | Chronik | ratio | bar | | CPU of Kafka | CPU of Chronik |",
        "|---|--:|--:|--:|--:|---|--:|--:|",
    ]
    for row in rows:
        met = row.is_met(figures.fsync_ms)
        verdict = "" if met is None else "met" if met else "**missed**"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
        values = f"{shown(row.other, row.unit)} | {shown(row.mine, row.unit)}"
        lines.append(
            f"| {row.title} | {values} | {ratio} | {row.bar} | {verdict} | {cpu(row.other)} | {cpu(row.mine)} |"
        )
    lines += ["", *spread(figures), f"![ratios]({picture})", ""]
    return "\n".join(lines)


def spread(figures: Figures) -> list[str]:
    """What a thousand partitions cost. A broker does less at a time when less arrives, so a client that is slowed down
    by the partitions itself makes the broker look dear; its figures stand beside, with their rates."""
    narrow, wide = figures.of("narrow", MINE), figures.of("wide", MINE)
    if narrow is None or wide is None or not narrow.cpu_us or not wide.cpu_us:
        return []
    ratio = wide.cpu_us / narrow.cpu_us
    verdict = "met" if ratio <= 2 else "**missed**"
    costs = f"{at_rate(wide)}, to one partition {at_rate(narrow)}: {ratio:.2f}x, bar 2x, {verdict}"
    lines = [f"A message to one of 1,000 partitions, acks=all, 128 connections of chronik-bench, costs {costs}."]
    narrow, wide = figures.of("narrow-rd", MINE), figures.of("wide-rd", MINE)
    if narrow is not None and wide is not None:
        lines.append(
            "128 producers of librdkafka, each with a thread and a queue for every partition on the same cores: "
            f"{at_rate(wide)}, to one partition {at_rate(narrow)}."
        )
    return [*lines, ""]


def at_rate(figure: Figure) -> str:
    return f"{figure.cpu_us:.0f} us of CPU at {figure.value:,.0f} msg/s"


def shown(figure: Figure | None, unit: str) -> str:
    if figure is None:
        return "-"
    value = figure.value
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    p99 = f" (p99 {figure.p99:.3g} ms)" if figure.p99 is not None else ""
    return f"{text} {unit}{p99}"


def cpu(figure: Figure | None) -> str:
    return "-" if figure is None or figure.cpu_us is None else f"{figure.cpu_us:.3g} us"


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}, Python {platform.python_version()}"


def plot(rows: Sequence[Row], path: Path) -> None:
    """One bar a work, on a logarithmic scale: to the right of 1 we are better."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    drawn = [row for row in rows if row.ratio is not None][::-1]
    if not drawn:
        return
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(drawn) + 1))
    ratios = [row.ratio or 1 for row in drawn]
    axes.barh([row.title for row in drawn], [ratio - 1 for ratio in ratios], left=1, color="#4477aa", height=0.6)
    for index, (row, ratio) in enumerate(zip(drawn, ratios, strict=True)):
        axes.annotate(
            f"{ratio:.2g}x", (ratio, index), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8
        )
        if row.bar.endswith("x"):
            axes.plot([float(row.bar[:-1])] * 2, [index - 0.4, index + 0.4], color="#cc6677", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times better than Kafka; a red line is the bar")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
