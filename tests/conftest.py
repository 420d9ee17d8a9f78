"""What all tests share: how hypothesis searches, and how `tests.distribution` spreads them over processes.

No test may fail because the machine was slow, so nothing here sets a deadline; pytest's own time-out ends what hangs.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.distribution import pytest_collection_modifyitems, pytest_configure_node, pytest_xdist_make_scheduler

__all__ = ["pytest_collection_modifyitems", "pytest_configure_node", "pytest_xdist_make_scheduler"]

settings.register_profile(
    "chronik",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", settings.get_profile("chronik"), max_examples=20)  # for `make quick`
settings.load_profile("chronik")
