"""FindCoordinator for transactional ids: the state topic is created on first use, and its leader coordinates."""

from __future__ import annotations

import pytest

from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.hostile import World, run

TRANSACTION = 1
ATTEMPTS = 100


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_transactional_id_is_coordinated_by_the_leader_of_its_partition(version: int) -> None:
    async def test() -> None:
        world = await World.make()
        request = FindCoordinatorRequest(key="t", key_type=TRANSACTION, coordinator_keys=["t"])
        for _ in range(ATTEMPTS):
            answer = await world.client.ask(request, FindCoordinatorResponse, version)
            found = answer.coordinators[0] if version >= 4 else answer
            if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:  # until the new topic has leaders
                break
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, world.node.node_id)
        assert world.node.store.image.topic_named("__transaction_state") is not None
        init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
        for _ in range(ATTEMPTS):
            made = await world.client.ask(init, InitProducerIdResponse, 4)
            if made.error_code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
                break
        assert (made.error_code, made.producer_epoch) == (ErrorCode.NONE, 0)
        await world.node.stop()

    run(test())
