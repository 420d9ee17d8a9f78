"""Feature levels (KIP-584): what a broker can do that the whole cluster must agree on, and what a new one begins with.

The controller raises a level when every registered broker supports it. Clients choose by transaction.version whether
each transaction gets an epoch of its own. group.version 1 allows consumer groups, share.version 1 share groups,
streams.version 1 streams groups: nodes of older releases cannot read their records, so an upgraded cluster serves them
once its operator has raised the level. The rest of Kafka's features are switches for its own upgrades; ours is
chronik.format (`metadata/formats.py`).
"""

from __future__ import annotations

from chronik.coordinator.groups.consumer.requests import GROUP_FEATURE
from chronik.coordinator.groups.share.requests import SHARE_FEATURE
from chronik.coordinator.groups.streams.requests import STREAMS_FEATURE
from chronik.coordinator.transactions.shard import TRANSACTION_FEATURE
from chronik.metadata.commands.register_broker import SupportedFeature
from chronik.metadata.decisions.elections import ELR_FEATURE
from chronik.metadata.formats import FIRST, FORMAT_FEATURE, NEWEST

# Lowest and highest level.
SUPPORTED = {
    ELR_FEATURE: (0, 1),
    GROUP_FEATURE: (0, 1),
    SHARE_FEATURE: (0, 1),
    STREAMS_FEATURE: (0, 1),
    TRANSACTION_FEATURE: (0, 2),
    FORMAT_FEATURE: (FIRST, NEWEST),
}
# Kafka's features as in a new cluster of Kafka 4.1 or later.
AT_FOUNDING = {
    ELR_FEATURE: 1,
    GROUP_FEATURE: 1,
    SHARE_FEATURE: 1,
    STREAMS_FEATURE: 1,
    TRANSACTION_FEATURE: 2,
    FORMAT_FEATURE: NEWEST,
}


def supported_features() -> list[SupportedFeature]:
    return [SupportedFeature(name=name, level_min=low, level_max=high) for name, (low, high) in SUPPORTED.items()]
