"""A broker reports that it is alive, and requests a state: fenced, live, or shutting down.

The effects on partitions are decided in the same batch.
"""

from __future__ import annotations

from typing import ClassVar

from chronik.metadata.commands.command import Reply, SessionCommand
from chronik.metadata.decisions.broker_epochs import check_broker_epoch, leave, state_change
from chronik.metadata.decisions.decision import ControllerState, Decision, Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.image import Broker, View
from chronik.metadata.sessions import BrokerSessions
from chronik.wire.notation import boolean, int32, int64


class BrokerHeartbeatReply(Reply):
    is_fenced: boolean
    should_shut_down: boolean


class BrokerHeartbeat(SessionCommand[BrokerHeartbeatReply]):
    """A broker asks to be unfenced once its own image shows its registration in this epoch."""

    is_own_duty: ClassVar[bool] = True
    needs_no_image: ClassVar[bool] = True

    broker_id: int32
    broker_epoch: int64
    want_fence: boolean = False
    want_shut_down: boolean = False

    def decide(self, state: ControllerState) -> Decision[BrokerHeartbeatReply]:
        """Moves the broker to the requested state. A broker that shuts down learns when it leads nothing."""
        view, rules = state.view, state.rules
        broker = check_broker_epoch(view, self.broker_id, self.broker_epoch)
        if self.want_shut_down:
            return _shut_down(view, broker, rules)
        if self.want_fence or not broker.fenced:
            fence = self.want_fence and not broker.fenced
            records = leave(view, broker, rules, fenced=True) if fence else []
            reply = BrokerHeartbeatReply(is_fenced=self.want_fence, should_shut_down=False)
            return Decision(records, reply, divisible=True)
        return Decision(
            [state_change(broker, fenced=False), *Elections(view, rules, back=broker.broker_id).for_the_leaderless()],
            BrokerHeartbeatReply(is_fenced=False, should_shut_down=False),
            divisible=True,
        )

    def update_sessions(self, sessions: BrokerSessions, decision: Decision[BrokerHeartbeatReply], now_ns: int) -> None:
        if decision.reply.is_fenced:
            sessions.forget(self.broker_id)
        else:
            sessions.heard(self.broker_id, now_ns)


def _shut_down(view: View, broker: Broker, rules: Rules) -> Decision[BrokerHeartbeatReply]:
    """Moves its leaderships away first. When none is left, or no other broker can take one, the broker is fenced."""
    if broker.fenced:
        return Decision([], BrokerHeartbeatReply(is_fenced=True, should_shut_down=True))
    if not broker.in_controlled_shutdown:
        records = leave(view, broker, rules, fenced=False)
        return Decision(records, BrokerHeartbeatReply(is_fenced=False, should_shut_down=False), divisible=True)
    records = leave(view, broker, rules, fenced=True)
    return Decision(records, BrokerHeartbeatReply(is_fenced=True, should_shut_down=True), divisible=True)
