"""A node that loses a permanent task stops, instead of running without it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from chronik.broker.errors import DutyFailed
from chronik.broker.node import Node
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.broker.hostile import World, run

# The task, and its repeated action.
DUTIES: list[tuple[str, Callable[[Node], object], str]] = [
    ("maintenance", lambda node: node.logs, "maintain"),
    ("group expiry", lambda node: node.groups, "expire"),
    ("heartbeats", lambda node: node.store, "submit"),
]


class Unforeseen(Exception):
    """An unexpected error."""


def explode(*_: object, **__: object) -> None:
    raise Unforeseen("out of thin air")


@pytest.mark.parametrize(("task", "owner", "method"), DUTIES, ids=[each[0] for each in DUTIES])
def test_a_node_ends_with_a_task_that_must_not(
    task: str, owner: Callable[[Node], object], method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention that is gone, or an ISR that never changes again, would be noticed by a full disk and lost records."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        stopped = asyncio.ensure_future(world.node.wait_stopped())
        setattr(owner(world.node), method, explode)
        with pytest.raises(DutyFailed) as told:
            await asyncio.wait_for(stopped, 3600)
        assert isinstance(told.value.__cause__, Unforeseen)
        assert world.client.is_closed
        assert world.node.failure == str(told.value)
        await world.node.stop()

    run(story())
    [line] = [each.getMessage() for each in caplog.records if each.levelno == logging.CRITICAL]
    assert line == f"stopping: task node 1.{task} failed: Unforeseen: out of thin air"


def test_a_task_for_one_topic_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Files that cannot be removed are removed at the next start; nothing else may be affected."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        await world.create("other")
        await world.produce(topic="other")

        async def delete(_: object) -> None:
            explode()

        world.node.logs.delete = delete  # type: ignore[method-assign, assignment]
        deleted = DeleteTopicsRequest(topic_names=["other"], timeout_ms=1000)
        await world.client.ask(deleted, DeleteTopicsResponse, 4)
        await asyncio.sleep(60)
        await world.is_serving()
        assert world.node.failure is None
        await world.node.stop()

    run(story())
    assert "delete other-0 failed" in caplog.text
    assert not [each for each in caplog.records if each.levelno == logging.CRITICAL]
