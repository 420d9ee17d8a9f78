"""The brokers that the controller has recently heard from. Soft state: not in the log, and lost with the controller.

A new controller does not know when each broker last reported. It waits a full session before it fences a silent broker,
so it never fences a live one. But it considers a broker alive only after hearing from it, so a broker that restarts
together with the controller can register immediately.
"""

from __future__ import annotations

from chronik.metadata.image import View
from chronik.runtime.invariants import check


class BrokerSessions:
    def __init__(self, view: View, *, timeout_ns: int, now_ns: int) -> None:
        self._timeout_ns = timeout_ns
        self._since_ns = {broker.broker_id: now_ns for broker in view.brokers.values() if not broker.fenced}
        self._heard: set[int] = set()

    def heard(self, broker_id: int, now_ns: int) -> None:
        self._since_ns[broker_id] = now_ns
        self._heard.add(broker_id)

    def go_on_from(self, earlier: BrokerSessions) -> None:
        """Continues sessions of the same leadership whose last decisions failed: the heartbeats were real."""
        for broker_id in earlier._heard & self._since_ns.keys():
            self.heard(broker_id, earlier._since_ns[broker_id])

    def forget(self, broker_id: int) -> None:
        self._since_ns.pop(broker_id, None)
        self._heard.discard(broker_id)

    def alive(self, broker_id: int, now_ns: int) -> bool:
        return broker_id in self._heard and not self._is_over(broker_id, now_ns)

    def watched(self) -> list[int]:
        """The brokers that count as alive."""
        check(self._heard <= self._since_ns.keys(), "25 who was heard is watched", heard=sorted(self._heard))
        return sorted(self._since_ns)

    def expired(self, now_ns: int) -> list[int]:
        return sorted(broker_id for broker_id in self._since_ns if self._is_over(broker_id, now_ns))

    def _is_over(self, broker_id: int, now_ns: int) -> bool:
        return now_ns - self._since_ns[broker_id] >= self._timeout_ns
