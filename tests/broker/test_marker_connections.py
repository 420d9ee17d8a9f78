"""Markers on a connection that the sending node has given up do not end a producer's next transaction."""

from __future__ import annotations

import pytest

from chronik.broker.errors import Unanswerable
from chronik.broker.marker_connections import MarkerConnections, client_id_of
from chronik.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.broker import harness, transactional
from tests.broker.apis.test_write_txn_markers import marker
from tests.broker.hostile import World
from tests.broker.transactional import replica_of, write

NODES = {1, 2}
OLD, NEW = 3, 5


def test_a_request_on_an_older_connection_is_late() -> None:
    known = MarkerConnections()
    known.require_newest(client_id_of(1), OLD, NODES)
    known.require_newest(client_id_of(1), NEW, NODES)
    known.require_newest(client_id_of(1), NEW, NODES)
    with pytest.raises(Unanswerable):
        known.require_newest(client_id_of(1), OLD, NODES)


def test_nodes_do_not_share_connections() -> None:
    known = MarkerConnections()
    known.require_newest(client_id_of(1), NEW, NODES)
    known.require_newest(client_id_of(2), OLD, NODES)


@pytest.mark.parametrize(
    "client_id", [None, "", "admin", "broker-", "broker-3", "broker-x", "broker-\u00b2", "broker-" + "1" * 99]
)
def test_operators_may_use_any_connection(client_id: str | None) -> None:
    known = MarkerConnections()
    known.require_newest(client_id, NEW, NODES)
    known.require_newest(client_id, OLD, NODES)


def test_markers_that_were_held_up_do_not_end_the_next_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator heard nothing, sent them again, and completed the transaction. All transactions of the producer
    have one epoch."""

    async def story(world: World) -> None:
        monkeypatch.setattr(harness, "CLIENT_ID", client_id_of(world.node.node_id))
        replica = replica_of(world)
        given_up, present = harness.Client(world.node), harness.Client(world.node)
        request = WriteTxnMarkersRequest(markers=[marker(("t", [0]))])
        write(replica)
        await present.ask(request, WriteTxnMarkersResponse, 1)
        write(replica, sequence=1)
        end_offset = replica.log.end_offset
        with pytest.raises(harness.Closed):
            await given_up.ask(request, WriteTxnMarkersResponse, 1)
        assert replica.log.end_offset == end_offset
        assert replica.log.producers.in_transaction()
        await present.ask(request, WriteTxnMarkersResponse, 1)
        assert not replica.log.producers.in_transaction()

    transactional.play(lambda world, _: story(world))
