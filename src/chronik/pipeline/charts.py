"""Plots as SVG text, for a report that is one file: lines, bars, the graph of flows. No library, no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT = 860, 220
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 14, 34
COLOURS: Final = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
TICKS: Final = 4

Points = Sequence[tuple[float, float]]


def lines(series: Mapping[str, Points], unit: str) -> str:
    """One line per name, over the seconds since the first point of all."""
    points = [point for each in series.values() for point in each]
    if not points:
        return '<p class="none">nothing was measured</p>'
    x_min = min(x for x, _ in points)
    x_max = max(max(x for x, _ in points), x_min + 1)
    y_max = max(max(y for _, y in points), 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - x_min) / (x_max - x_min) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM)

    parts = [_frame(y_max, unit)]
    parts += [
        f'<text class="tick" x="{place(x, 0)[0]:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{x - x_min:.0f} s</text>'
        for x in (x_min + (x_max - x_min) * step / TICKS for step in range(TICKS + 1))
    ]
    for index, each in enumerate(series.values()):
        colour = COLOURS[index % len(COLOURS)]
        placed = [place(x, y) for x, y in each]
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in placed)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{path}"/>')
        parts += [f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.5" fill="{colour}"/>' for across, down in placed]
    return _svg(parts, HEIGHT) + _legend(series)


def bars(values: Mapping[str, float], unit: str) -> str:
    """One bar for each name."""
    if not values:
        return '<p class="none">none</p>'
    row = 26
    y_max = max(max(values.values()), 1)
    parts = []
    for index, (name, value) in enumerate(values.items()):
        top = index * row + 4
        width = value / y_max * (WIDTH - 420)
        colour = COLOURS[index % len(COLOURS)]
        parts += [
            f'<text class="name" x="240" y="{top + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="250" y="{top}" width="{max(width, 1):.1f}" height="18" fill="{colour}"/>',
            f'<text class="tick" x="{258 + width:.1f}" y="{top + 14}">{value:,.0f} {escape(unit)}</text>',
        ]
    return _svg(parts, len(values) * row + 8)


def graph(edges: Sequence[tuple[str, str]]) -> str:
    """Boxes in columns, each to the right of all its inputs."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    if not names:
        return '<p class="none">nothing was read</p>'
    depth = dict.fromkeys(names, 0)
    for _ in names:  # bounds the number of steps, so that a cycle ends
        for source, target in edges:
            if target != source:
                depth[target] = min(max(depth[target], depth[source] + 1), len(names))
    columns: dict[int, list[str]] = {}
    for name in names:
        columns.setdefault(depth[name], []).append(name)
    box_width, box_height, gap_x, gap_y = 190, 34, 50, 16
    at = {
        name: (column * (box_width + gap_x) + 4, row * (box_height + gap_y) + 8)
        for column, some in columns.items()
        for row, name in enumerate(some)
    }
    parts = []
    for source, target in edges:
        x1, y1 = at[source][0] + box_width, at[source][1] + box_height / 2
        x2, y2 = at[target][0], at[target][1] + box_height / 2
        middle = (x1 + x2) / 2
        parts.append(
            f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" fill="none" stroke="#94a3b8" '
            'stroke-width="1.5" marker-end="url(#arrow)"/>'
        )
    for name, (x, y) in at.items():
        parts += [
            f'<rect class="box" x="{x}" y="{y}" width="{box_width}" height="{box_height}" rx="5"/>',
            f'<text class="name" x="{x + box_width / 2}" y="{y + 21}" text-anchor="middle">{_short(name)}</text>',
        ]
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#94a3b8"/></marker></defs>'
    )
    height = max(len(some) for some in columns.values()) * (box_height + gap_y) + 16
    return _svg([arrow, *parts], height, width=len(columns) * (box_width + gap_x))


def _short(name: str) -> str:
    return escape(name if len(name) <= 26 else f"…{name[-25:]}")


def _frame(y_max: float, unit: str) -> str:
    parts = []
    for step in range(TICKS + 1):
        y = HEIGHT - BOTTOM - step / TICKS * (HEIGHT - TOP - BOTTOM)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = f"{y_max * step / TICKS:,.0f}"
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(f'<text class="tick" x="4" y="{TOP}">{escape(unit)}</text>')
    return "".join(parts)


def _legend(series: Mapping[str, Points]) -> str:
    items = (
        f'<span><i style="background:{COLOURS[index % len(COLOURS)]}"></i>{escape(name)}</span>'
        for index, name in enumerate(series)
    )
    return f'<div class="legend">{"".join(items)}</div>'


def _svg(parts: Sequence[str], height: float, width: float = WIDTH) -> str:
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img">{"".join(parts)}</svg>'
