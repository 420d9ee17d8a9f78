"""Shared by all commands about brokers: checking a broker's epoch, and the effects of a broker leaving.

A registered broker is fenced until it asks to be unfenced. A process with an epoch older than the last registration's
is refused.
"""

from __future__ import annotations

from chronik.metadata.decisions.decision import Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import refuse
from chronik.metadata.image import Broker, View
from chronik.metadata.records import BrokerChangeRecord, MetadataRecord
from chronik.wire.error_codes import ErrorCode


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


def leave(view: View, broker: Broker, rules: Rules, *, fenced: bool) -> list[MetadataRecord]:
    """The broker leaves. Its partitions change first, so that no image shows a fenced broker as a leader."""
    return [
        *Elections(view, rules, gone=broker.broker_id).without(broker.broker_id),
        state_change(broker, fenced=fenced, in_controlled_shutdown=not fenced or broker.in_controlled_shutdown),
    ]


def state_change(broker: Broker, *, fenced: bool, in_controlled_shutdown: bool = False) -> BrokerChangeRecord:
    return BrokerChangeRecord(
        broker_id=broker.broker_id, epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=in_controlled_shutdown
    )
