"""Groups of consumers: membership, rebalances and committed offsets."""

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator", "GroupsConfig"]
