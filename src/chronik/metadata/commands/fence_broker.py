"""Fences a broker whose session expired. The controller submits this itself."""

from __future__ import annotations

from chronik.metadata.commands.command import Reply, SessionCommand
from chronik.metadata.decisions.broker_epochs import check_broker_epoch, leave
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.sessions import BrokerSessions
from chronik.wire.notation import int32, int64


class FenceBrokerReply(Reply):
    pass


class FenceBroker(SessionCommand[FenceBrokerReply]):
    broker_id: int32
    broker_epoch: int64

    def decide(self, state: ControllerState) -> Decision[FenceBrokerReply]:
        view, rules = state.view, state.rules
        broker = check_broker_epoch(view, self.broker_id, self.broker_epoch)
        records = [] if broker.fenced else leave(view, broker, rules, fenced=True)
        return Decision(records, FenceBrokerReply(), divisible=True)

    def update_sessions(self, sessions: BrokerSessions, decision: Decision[FenceBrokerReply], now_ns: int) -> None:
        sessions.forget(self.broker_id)
