"""Feature levels rise when everyone can, and all together or not at all."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    UpdateFeatures,
)
from chronik.metadata.errors import MetadataRefused
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import cluster, registration

BEFORE = {"metadata.version": 30, "transaction.version": 2}
CASES = [
    ([("foo", 1, UPGRADE)], None),
    ([("transaction.version", 1, UPGRADE)], None),
    ([("transaction.version", 1, SAFE_DOWNGRADE)], {**BEFORE, "transaction.version": 1}),
    ([("transaction.version", 0, SAFE_DOWNGRADE)], {"metadata.version": 30}),
    ([("transaction.version", 9, UPGRADE)], None),
    ([("transaction.version", -1, UPGRADE)], None),
    ([("group.version", 1, 7)], None),
    ([("group.version", 1, UPGRADE)], {**BEFORE, "group.version": 1}),
    ([("metadata.version", 31, UPGRADE)], None),
    ([("metadata.version", 29, UPGRADE)], None),
    ([("metadata.version", 29, SAFE_DOWNGRADE)], None),
    ([("metadata.version", 25, UNSAFE_DOWNGRADE)], None),
    ([("metadata.version", 0, UPGRADE)], None),
    ([("group.version", 1, UPGRADE), ("transaction.version", 9, UPGRADE)], None),
    ([], BEFORE),
]


@pytest.mark.parametrize(("updates", "after"), CASES)
def test_levels_change_together_or_are_refused(
    updates: list[tuple[str, int, int]], after: dict[str, int] | None
) -> None:
    """A half-finished upgrade is an untested state. Codes are those of Kafka 4.3.1."""
    on = cluster(1, features=BEFORE)
    asked = [FeatureUpdate(name=name, level=level, upgrade_type=kind) for name, level, kind in updates]
    if after is None:
        with pytest.raises(MetadataRefused) as refused:
            on.ask(UpdateFeatures(updates=asked))
        assert refused.value.error_code == ErrorCode.INVALID_UPDATE_VERSION
    else:
        on.ask(UpdateFeatures(updates=asked, validate_only=True))
        assert dict(on.image.features) == BEFORE
        on.ask(UpdateFeatures(updates=asked))
    assert dict(on.image.features) == (BEFORE if after is None else after)


def test_one_old_broker_holds_a_feature_back() -> None:
    """Otherwise it would get records that it cannot read."""
    on = cluster(1)
    old = registration(2)
    old.features = [feature for feature in old.features if feature.name != "group.version"]
    on.ask(old)
    with pytest.raises(MetadataRefused, match="broker 2"):
        on.ask(UpdateFeatures(updates=[FeatureUpdate(name="group.version", level=1)]))
