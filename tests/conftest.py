"""What all tests share: how hypothesis searches, and which tests run in one process, in which order.

No test may fail because the machine was slow, so nothing here sets a deadline; pytest's own time-out ends what hangs.
The order stays random: only groups are moved, and only so that no process is left with a long one at the end.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests.oracle.either_broker import KAFKA

settings.register_profile(
    "chronik",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", settings.get_profile("chronik"), max_examples=20)  # for `make quick`
settings.load_profile("chronik")


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark first, then groups that need another JVM, then slow tests, largest group first. The fast ones end it, so no
    process waits long for another."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (home := _home(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(home))
    sizes = Counter(map(_group, items))
    ranks: dict[str, int] = {}
    for item in items:
        rank = next((rank for rank, mark in enumerate(("spark", "java", "slow")) if _is(item, mark)), 3)
        ranks[_group(item)] = min(rank, ranks.get(_group(item), rank))
    items.sort(key=lambda item: (ranks[_group(item)], -sizes[_group(item)]))


def _home(item: pytest.Item) -> str | None:
    """The group of a test that names none. Tests of a Kafka share it, and a file that needs a JVM starts it once. To
    distribute fast tests one by one costs more than they do. Slow tests are distributed one by one: None."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if parameters.get("bootstrap") == KAFKA:
        return KAFKA
    is_alone = _is(item, "slow") and not _is(item, "java")
    return None if is_alone else item.path.relative_to(item.config.rootpath).as_posix()


def _is(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return item.nodeid if marker is None else str(marker.args[0])
