"""Groups of consumers: membership, rebalances and committed offsets."""

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.coordinator import OFFSETS_TOPIC, GroupCoordinator

__all__ = ["OFFSETS_TOPIC", "GroupCoordinator", "GroupsConfig"]
