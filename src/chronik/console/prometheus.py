"""Reads the text that a node's /metrics page holds. Pure; other lines are passed over.

Only the families that are asked for are kept: the page of a cluster with ten thousand topics has megabytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

_label: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_escape: Final = re.compile(r"\\(.)")


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


Families = Mapping[str, list[Sample]]


def parse(text: str, wanted: Collection[str]) -> dict[str, list[Sample]]:
    """Samples by the name that stands on their line, so a histogram is three families."""
    found: dict[str, list[Sample]] = {}
    for line in text.splitlines():
        name = line.partition(" ")[0].partition("{")[0]
        if name not in wanted:
            continue
        rest = line[len(name) :]
        labels: dict[str, str] = {}
        if rest.startswith("{"):
            inside, _, rest = rest.rpartition("}")
            labels = {key: _plain(value) for key, value in _label.findall(inside)}
        try:
            value = float(rest.split()[0])
        except (IndexError, ValueError):
            continue
        found.setdefault(name, []).append(Sample(labels, value))
    return found


def single(families: Families, name: str) -> float | None:
    """The sample without labels."""
    return next((each.value for each in families.get(name, ()) if not each.labels), None)


def _plain(value: str) -> str:
    return _escape.sub(lambda found: "\n" if found[1] == "n" else found[1], value) if "\\" in value else value
