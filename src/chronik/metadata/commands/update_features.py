"""Changes feature levels: the newer protocol abilities that the whole cluster has agreed on.

A level rises when every registered broker supports it. If one update is refused, all of them are, as in Kafka.
"""

from __future__ import annotations

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import refuse
from chronik.metadata.formats import FIRST, FORMAT_FEATURE, NEWEST
from chronik.metadata.image import View
from chronik.metadata.records import FeatureLevelRecord, MetadataRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, boolean, int8, int16, string

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # FeatureUpdate.upgrade_type, Kafka's numbers

METADATA_VERSION = "metadata.version"

# Kafka 4.3's features, with the lowest and highest level it supports.
KAFKA_FEATURES: dict[str, tuple[int, int]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    METADATA_VERSION: (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
FEATURES = {**KAFKA_FEATURES, FORMAT_FEATURE: (FIRST, NEWEST)}
NEVER_LOWERED = (METADATA_VERSION, FORMAT_FEATURE)


class UpdateFeaturesReply(Reply):
    pass


class UpdateFeatures(ControllerCommand[UpdateFeaturesReply]):
    updates: list[FeatureUpdate]
    validate_only: boolean = False

    def decide(self, state: ControllerState) -> Decision[UpdateFeaturesReply]:
        view = state.view
        records: list[MetadataRecord] = []
        for update in self.updates:
            _check(view, update)
            if view.features.get(update.name, 0) != update.level:
                records.append(FeatureLevelRecord(name=update.name, level=update.level))
        return Decision([] if self.validate_only else records, UpdateFeaturesReply())


class FeatureUpdate(Struct):
    name: string
    level: int16
    upgrade_type: int8 = UPGRADE


def _check(view: View, update: FeatureUpdate) -> None:
    name, level = update.name, update.level
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        _refuse(update, f"upgrade type {update.upgrade_type} is unknown")
    if name not in FEATURES:
        _refuse(update, "the controller does not know this feature")
    lowest, highest = FEATURES[name]
    if not lowest <= level <= highest:
        _refuse(update, f"the controller supports {lowest} to {highest}")
    for broker in view.brokers.values():
        supported = broker.features.get(name)
        if level != 0 and (supported is None or not supported.level_min <= level <= supported.level_max):
            ranges = "no level" if supported is None else f"{supported.level_min} to {supported.level_max}"
            _refuse(update, f"broker {broker.broker_id} supports {ranges}")
    current = view.features.get(name, 0)
    if level < current and update.upgrade_type == UPGRADE:
        _refuse(update, f"it is at {current}, and a lower level must be asked for as a downgrade")
    if level < current and name in NEVER_LOWERED:
        _refuse(update, f"it is at {current}, and going back would lose metadata that the lower level cannot hold")


def _refuse(update: FeatureUpdate, reason: str) -> None:
    refuse(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"no feature was changed: {update.name} cannot go to level {update.level}: {reason}",
    )
