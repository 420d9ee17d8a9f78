"""Which tests run in one process, and in which order the processes of `make test` take them.

Tests with the same mark `xdist_group` run in one process, one after the other. So do the tests of a file that need a
JVM, which they then start once, and fast tests of a file, because to distribute them one by one costs more than they
do. Other slow tests are distributed one by one. The order stays random within a group, and between groups of a size.

xdist has groups of its own (`--dist loadgroup`), which it appends to the tests' ids. With pytest 9.2 that has no effect
(pytest-xdist#1386), and nothing says so. Here test processes write the groups to a file, and the scheduler reads it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.oracle.either_broker import KAFKA

MARKS_BY_LENGTH = ("spark", "java", "slow")  # how long their tests take, longest first
FILE = "chronik_groups_file"
_folder = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """Groups in the order of their first tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._groups: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            self._groups = json.loads(_file(self.config).read_text())
        return self._groups[nodeid]


def pytest_configure_node(node: Any) -> None:
    """xdist calls it for each process that it starts."""
    node.workerinput[FILE] = str(_file(node.config))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)  # deselected tests are gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long groups first, the largest first. Fast tests end the run, so no process waits long for another."""
    groups = {item.nodeid: _group(item) for item in items}
    sizes = Counter(groups.values())
    ranks: dict[str, int] = {}
    for item in items:
        rank = next((rank for rank, mark in enumerate(MARKS_BY_LENGTH) if _is(item, mark)), len(MARKS_BY_LENGTH))
        ranks[groups[item.nodeid]] = min(rank, ranks.get(groups[item.nodeid], rank))
    items.sort(key=lambda item: (ranks[groups[item.nodeid]], -sizes[groups[item.nodeid]]))
    if hasattr(config, "workerinput"):
        _write(Path(config.workerinput[FILE]), groups)


def _group(item: pytest.Item) -> str:
    marks = [str(mark.args[0]) for mark in item.iter_markers("xdist_group")]
    if marks:
        return "+".join(sorted(marks))
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if parameters.get("bootstrap") == KAFKA:
        return KAFKA
    is_alone = _is(item, "slow") and not _is(item, "java")
    return item.nodeid if is_alone else item.nodeid.partition("::")[0]


def _is(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _file(config: pytest.Config) -> Path:
    """In a folder that goes with this run."""
    if _folder not in config.stash:
        made = config.stash[_folder] = tempfile.TemporaryDirectory(prefix="chronik-groups-")
        config.add_cleanup(made.cleanup)
    return Path(config.stash[_folder].name) / "groups.json"


def _write(path: Path, groups: dict[str, str]) -> None:
    """All processes write the same, at the same time; a file is whole or not there."""
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(groups))
    unfinished.replace(path)
