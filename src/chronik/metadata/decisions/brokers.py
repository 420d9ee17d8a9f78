"""Brokers join, live, are fenced and leave. What that means for partitions is decided with it, in the same batch.

A registered broker is fenced until it asks not to be. Epochs rise with each registration; whoever speaks in an old one
is a process of the past and is told so.
"""

from __future__ import annotations

from chronik.metadata.commands import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    FenceBroker,
    FenceBrokerReply,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
    UnregisterBrokerReply,
)
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import refuse
from chronik.metadata.image import Broker, View
from chronik.metadata.records import (
    BrokerChangeRecord,
    EndpointField,
    FeatureRangeField,
    Record,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import ZERO_UUID


def register_broker(
    view: View, command: RegisterBroker, rules: Rules, *, session_alive: bool
) -> Decision[RegisterBrokerReply]:
    """A new process takes a broker's place at once if it holds the same data directory, which only one can lock.

    From another directory it has to wait until the old one's session is over: two machines may share an id by mistake.
    A directory that has not heard of the process registered last is an old copy, and counts as another one.
    """
    broker_id = command.broker_id
    if command.cluster_id != view.cluster_id:
        refuse(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {broker_id} belongs to cluster {command.cluster_id!r}, this is {view.cluster_id!r}",
        )
    if ZERO_UUID in command.directory_ids or len(set(command.directory_ids)) < len(command.directory_ids):
        refuse(ErrorCode.INVALID_REQUEST, f"broker {broker_id} names a data directory twice or without an id")
    before = view.brokers.get(broker_id)
    if before is not None and before.incarnation_id == command.incarnation_id:
        return Decision([], RegisterBrokerReply(broker_epoch=before.epoch))
    same_disk = before is not None and _is_same_disk(before, command)
    if before is not None and session_alive and not before.fenced and not same_disk:
        refuse(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another live process is broker {broker_id}: give this one a node.id of its own",
        )
    _check_features(view, command)
    records: list[Record] = []
    if before is not None:
        # On the same disk it still has all that it acknowledged.
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
            incarnation_id=command.incarnation_id,
            fenced=True,
            in_controlled_shutdown=False,
            rack=command.rack,
            endpoints=[
                EndpointField(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in command.endpoints
            ],
            features=[
                FeatureRangeField(name=f.name, level_min=f.level_min, level_max=f.level_max) for f in command.features
            ],
            directory_ids=command.directory_ids,
        )
    )
    return Decision(records, RegisterBrokerReply(broker_epoch=epoch), divisible=True)


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


def broker_heartbeat(view: View, command: BrokerHeartbeat, rules: Rules) -> Decision[BrokerHeartbeatReply]:
    """Moves the broker to the state it asks for: fenced, live, or on its way out (it is told when it leads nothing)."""
    broker = check_broker_epoch(view, command.broker_id, command.broker_epoch)
    if command.want_shut_down:
        return _shut_down(view, broker, rules)
    if command.want_fence or not broker.fenced:
        fence = command.want_fence and not broker.fenced
        records = _leave(view, broker, rules, fenced=True) if fence else []
        reply = BrokerHeartbeatReply(is_fenced=command.want_fence, should_shut_down=False)
        return Decision(records, reply, divisible=True)
    return Decision(
        [_state(broker, fenced=False), *Elections(view, rules, back=broker.broker_id).for_the_leaderless()],
        BrokerHeartbeatReply(is_fenced=False, should_shut_down=False),
        divisible=True,
    )


def _shut_down(view: View, broker: Broker, rules: Rules) -> Decision[BrokerHeartbeatReply]:
    """First its leaderships go; when none is left, or none can be taken, it is fenced and may end."""
    if broker.fenced:
        return Decision([], BrokerHeartbeatReply(is_fenced=True, should_shut_down=True))
    if not broker.in_controlled_shutdown:
        records = _leave(view, broker, rules, fenced=False)
        return Decision(records, BrokerHeartbeatReply(is_fenced=False, should_shut_down=False), divisible=True)
    records = _leave(view, broker, rules, fenced=True)
    return Decision(records, BrokerHeartbeatReply(is_fenced=True, should_shut_down=True), divisible=True)


def fence_broker(view: View, command: FenceBroker, rules: Rules) -> Decision[FenceBrokerReply]:
    broker = check_broker_epoch(view, command.broker_id, command.broker_epoch)
    records = [] if broker.fenced else _leave(view, broker, rules, fenced=True)
    return Decision(records, FenceBrokerReply(), divisible=True)


def unregister_broker(view: View, command: UnregisterBroker, rules: Rules) -> Decision[UnregisterBrokerReply]:
    broker = view.brokers.get(command.broker_id)
    if broker is None:
        refuse(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {command.broker_id} is not registered")
    records = Elections(view, rules, gone=broker.broker_id).without(broker.broker_id, lost=True)
    records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, epoch=broker.epoch))
    return Decision(records, UnregisterBrokerReply(), divisible=True)


def check_broker_epoch(view: View, broker_id: int, epoch: int) -> Broker:
    broker = view.brokers.get(broker_id)
    if broker is None:
        refuse(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered: register it first")
    if broker.epoch != epoch:
        refuse(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} sent epoch {epoch}, but is registered with epoch {broker.epoch}",
        )
    return broker


def _leave(view: View, broker: Broker, rules: Rules, *, fenced: bool) -> list[Record]:
    """Its partitions first: nobody may see it fenced and still leading."""
    return [
        *Elections(view, rules, gone=broker.broker_id).without(broker.broker_id),
        _state(broker, fenced=fenced, in_controlled_shutdown=not fenced or broker.in_controlled_shutdown),
    ]


def _state(broker: Broker, *, fenced: bool, in_controlled_shutdown: bool = False) -> BrokerChangeRecord:
    return BrokerChangeRecord(
        broker_id=broker.broker_id, epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=in_controlled_shutdown
    )
