"""FindCoordinator and InitProducerId of clients that want transactions: told at once that there are none."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.hostile import World, run

TRANSACTION = 1


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_transactional_id_has_no_coordinator_and_never_will(version: int) -> None:
    """A code that may be tried again keeps the client trying for a minute or for ever."""

    async def test() -> None:
        world = await World.make()
        request = FindCoordinatorRequest(key="t", key_type=TRANSACTION, coordinator_keys=["t"])
        answer = await world.client.ask(request, FindCoordinatorResponse, version)
        found = answer.coordinators[0] if version >= 4 else answer
        error = ErrorCode.of(found.error_code)
        assert (error, error.retriable) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False)
        assert "no transactions" in (found.error_message or "")
        init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
        refused = await world.client.ask(init, InitProducerIdResponse, 4)
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        await world.node.stop()

    run(test())


def test_a_transactional_producer_of_librdkafka_fails_at_once() -> None:
    """It asks again after every other code, until the time that its caller gave it is over."""
    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t", "log_level": 0})
        with pytest.raises(KafkaException) as refused:
            producer.init_transactions(60)
        error: KafkaError = refused.value.args[0]
        assert error.fatal()
        assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
