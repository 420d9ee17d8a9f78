"""The Python behaviour of message classes."""

from __future__ import annotations

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.wire.notation import Nullable


def test_a_union_of_messages_is_one_for_isinstance() -> None:
    """`|` with None is the notation's; with another class it must not quietly mean the first of the two."""
    either = FenceBroker | UnregisterBroker
    assert isinstance(FenceBroker(broker_id=1, broker_epoch=1), either)
    assert isinstance(UnregisterBroker(broker_id=1), either)
    assert not isinstance(BrokerHeartbeat(broker_id=1, broker_epoch=1, want_shut_down=False), either)
    assert FenceBroker | None == Nullable(FenceBroker)
