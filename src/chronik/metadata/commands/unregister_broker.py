"""Removes a broker from the cluster, and from the ISR and ELR of its partitions."""

from __future__ import annotations

from chronik.metadata.commands.command import Reply, SessionCommand
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import refuse
from chronik.metadata.records import UnregisterBrokerRecord
from chronik.metadata.sessions import BrokerSessions
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import int32


class UnregisterBrokerReply(Reply):
    pass


class UnregisterBroker(SessionCommand[UnregisterBrokerReply]):
    broker_id: int32

    def decide(self, state: ControllerState) -> Decision[UnregisterBrokerReply]:
        view, rules = state.view, state.rules
        broker = view.brokers.get(self.broker_id)
        if broker is None:
            refuse(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {self.broker_id} is not registered")
        records = Elections(view, rules, gone=broker.broker_id).without(broker.broker_id, lost=True)
        records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, epoch=broker.epoch))
        return Decision(records, UnregisterBrokerReply(), divisible=True)

    def update_sessions(self, sessions: BrokerSessions, decision: Decision[UnregisterBrokerReply], now_ns: int) -> None:
        sessions.forget(self.broker_id)
