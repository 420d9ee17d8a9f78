"""Feature levels (KIP-584): what a broker can do that the whole cluster must agree on, and what a new one begins with.

The controller raises a level when every registered broker supports it. Of Kafka's features this is the one that changes
what a broker of ours does; the others are switches for Kafka's own upgrades.
"""

from __future__ import annotations

from chronik.metadata.commands import SupportedFeature
from chronik.metadata.decisions.elections import ELR_FEATURE

SUPPORTED = {ELR_FEATURE: (0, 1)}  # lowest and highest level
AT_FOUNDING = {ELR_FEATURE: 1}  # as in a new cluster of Kafka 4.1 or later


def supported_features() -> list[SupportedFeature]:
    return [SupportedFeature(name=name, level_min=low, level_max=high) for name, (low, high) in SUPPORTED.items()]
