"""As much of a node as the handlers of configurations need: settings, and a store that decides as the real one does.

The decisions and their replay are the real ones; there is no quorum, no disk and no clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from chronik.broker.api import served_apis
from chronik.broker.authorizer import AllowEverything
from chronik.broker.context import Context
from chronik.broker.described_topics import DescribedTopics
from chronik.broker.live_settings import LiveSettings
from chronik.broker.opening import store_config
from chronik.broker.settings import Settings
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic
from chronik.metadata.commands.register_broker import RegisterBroker
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataError
from chronik.metadata.image import EMPTY, Image
from chronik.metadata.replay import replay_onto
from chronik.runtime.pieces import at_once, is_work
from chronik.wire.compiler import decode, encode
from chronik.wire.notation import Request, Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class SmallNode:
    """Broker 1 of a cluster in which `others` are live as well."""

    def __init__(self, settings: Settings | None = None, others: tuple[int, ...] = ()) -> None:
        self.live_settings = LiveSettings(settings or Settings.default(node_id=1))
        self.authorizer = AllowEverything()
        self.described_topics = DescribedTopics()
        self.node_id = self.settings.node_id
        self.store = SmallStore(self)
        for broker_id in (self.node_id, *others):
            command = RegisterBroker(
                broker_id=broker_id, cluster_id="", incarnation_id=bytes([broker_id]) * 16, endpoints=[]
            )
            run(self.store.submit(command))
            epoch = self.store.image.brokers[broker_id].epoch
            run(self.store.submit(BrokerHeartbeat(broker_id=broker_id, broker_epoch=epoch)))

    @property
    def settings(self) -> Settings:
        return self.live_settings.now

    def create_topic(self, name: str, **configs: str) -> None:
        own = [ConfigValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic_id = name.encode().ljust(16, b".")
        reply = run(
            self.store.submit(
                CreateTopics(
                    topics=[
                        NewTopic(name=name, topic_id=topic_id, partition_count=1, replication_factor=1, configs=own)
                    ]
                )
            )
        )
        assert not reply.topics[0].error_code, reply.topics[0].error_message

    def ask(self, request: Request, response: type[R], version: int) -> R:
        """The response as a client reads it, after both messages were encoded and decoded."""
        received = decode(type(request), version, encode(request, version))
        context = Context(cast(Any, self), cast(Any, None), version, "test")
        answer = served_apis()[request.api_key].handle(received, context)
        if is_work(answer):
            answer = at_once(answer)
        if asyncio.iscoroutine(answer):
            answer = run(answer)
        return decode(response, version, encode(answer, version))


class SmallStore:
    def __init__(self, node: SmallNode) -> None:
        self.image: Image = EMPTY
        self.rules = store_config(node.settings).rules
        self.fails_with: MetadataError | None = None  # instead of deciding
        self._node = node

    def current(self) -> Image:
        return self.image

    async def submit(self, command: ControllerCommand[Any]) -> Any:
        if self.fails_with is not None:
            raise self.fails_with
        return self.apply(command.decide(ControllerState(self.image, self.rules)))

    def apply(self, decision: Decision[Any]) -> Reply:
        self.image, _ = replay_onto(self.image, self.image.version + 1, decision.records)
        self._node.live_settings.follow(self.image, self._node.node_id)
        return cast(Reply, decision.reply)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
