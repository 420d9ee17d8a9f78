"""Registers a broker's process. It is fenced until it asks to be unfenced.

Epochs increase with each registration, and a process with an older epoch is refused. The effects on partitions are
decided in the same batch.
"""

from __future__ import annotations

from typing import ClassVar

from chronik.metadata.commands.command import Reply, SessionCommand
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import refuse
from chronik.metadata.image import Broker, View
from chronik.metadata.records import EndpointField, FeatureRangeField, MetadataRecord, RegisterBrokerRecord
from chronik.metadata.sessions import BrokerSessions
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import ZERO_UUID, Struct, int16, int32, int64, string, uint16, uuid


class RegisterBrokerReply(Reply):
    broker_epoch: int64


class RegisterBroker(SessionCommand[RegisterBrokerReply]):
    is_own_duty: ClassVar[bool] = True
    needs_no_image: ClassVar[bool] = True

    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    endpoints: list[EndpointAt]
    rack: string | None = None
    features: list[SupportedFeature] = []  # noqa: RUF012
    directory_ids: list[uuid] = []  # noqa: RUF012 - of the data directories, which one process at a time can lock
    # Earlier processes recorded in the data directory; None: unknown.
    earlier_incarnation_ids: list[uuid] | None = None

    def decide(self, state: ControllerState) -> Decision[RegisterBrokerReply]:
        """A new process replaces a broker at once if it has the same data directory, which only one process can lock.

        With another directory it waits until the old session expires: two machines may share an id by mistake. A
        directory that does not know the last registered process is an old copy, and counts as another one.
        """
        view, rules = state.view, state.rules
        broker_id = self.broker_id
        if self.cluster_id != view.cluster_id:
            refuse(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"broker {broker_id} belongs to cluster {self.cluster_id!r}, this is {view.cluster_id!r}",
            )
        if ZERO_UUID in self.directory_ids or len(set(self.directory_ids)) < len(self.directory_ids):
            refuse(ErrorCode.INVALID_REQUEST, f"broker {broker_id} names a data directory twice or without an id")
        before = view.brokers.get(broker_id)
        if before is not None and before.incarnation_id == self.incarnation_id:
            return Decision([], RegisterBrokerReply(broker_epoch=before.epoch))
        same_disk = before is not None and _is_same_disk(before, self)
        if before is not None and not before.fenced and not same_disk and state.has_session(broker_id):
            refuse(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"another live process is broker {broker_id}: give this one a node.id of its own",
            )
        _check_features(view, self)
        records: list[MetadataRecord] = []
        if before is not None:
            # With the same disk it still has everything it acknowledged.
            records += Elections(view, rules, gone=broker_id).without(broker_id, lost=not same_disk)
        epoch = view.broker_epoch_last + 1
        check(
            all(each.epoch < epoch for each in view.brokers.values()),
            "15 a registration's epoch is new",
            broker=broker_id,
            epoch=epoch,
        )
        records.append(
            RegisterBrokerRecord(
                broker_id=broker_id,
                epoch=epoch,
                incarnation_id=self.incarnation_id,
                fenced=True,
                in_controlled_shutdown=False,
                rack=self.rack,
                endpoints=[
                    EndpointField(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                    for e in self.endpoints
                ],
                features=[
                    FeatureRangeField(name=f.name, level_min=f.level_min, level_max=f.level_max) for f in self.features
                ],
                directory_ids=self.directory_ids,
            )
        )
        return Decision(records, RegisterBrokerReply(broker_epoch=epoch), divisible=True)

    def update_sessions(self, sessions: BrokerSessions, decision: Decision[RegisterBrokerReply], now_ns: int) -> None:
        if decision.records:
            sessions.forget(self.broker_id)


class EndpointAt(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16 = 0  # PLAINTEXT


class SupportedFeature(Struct):
    name: string
    level_min: int16
    level_max: int16


def _is_same_disk(before: Broker, command: RegisterBroker) -> bool:
    if set(before.directory_ids).isdisjoint(command.directory_ids):
        return False
    return command.earlier_incarnation_ids is None or before.incarnation_id in command.earlier_incarnation_ids


def _check_features(view: View, command: RegisterBroker) -> None:
    supported = {feature.name: feature for feature in command.features}
    for name, level in view.features.items():
        feature = supported.get(name)
        if feature is None or not feature.level_min <= level <= feature.level_max:
            ranges = "not at all" if feature is None else f"only at {feature.level_min} to {feature.level_max}"
            refuse(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the cluster runs {name} at level {level}, broker {command.broker_id} has it {ranges}: upgrade it",
            )
