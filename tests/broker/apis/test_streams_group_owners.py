"""Streams groups whose members come, go, die and lose answers: an active task has one owner at any moment."""

from __future__ import annotations

import asyncio
from random import Random

from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from chronik.wire.messages.streams_group_heartbeat import (
    Topology,
)
from tests.broker.apis.streams_apps import App, described, make_world, part
from tests.broker.hostile import TOPIC, World, run


def test_no_task_has_two_owners_whatever_members_do() -> None:
    """Members come, go, die, lose answers and are late, while topics grow. What a member was told last is what it has;
    it gives up at once what it is not told any more, or everything when it is fenced."""

    async def test(seed: int) -> None:
        random = Random(seed)
        world = await make_world(group_streams_num_standby_replicas=seed % 2)
        apps = [App(world, f"m{number}", f"p{number % 3}") for number in range(5)]
        for step in range(120):
            await one_step(random, world, random.choice(apps), grows=step % 40 == 39)
            owned = [(name, p) for app in apps for name, parts in app.active.items() for p in parts]
            assert len(owned) == len(set(owned)), (seed, step, owned)
            if random.random() < 0.2:
                await asyncio.sleep(random.choice((0.1, 1)))
            elif random.random() < 0.02:
                await asyncio.sleep(50)
                for app in apps:  # silent for longer than the session time-out: it stops by itself
                    app.active, app.standby, app.epoch = {}, {}, 0
        for _ in range(12):
            for app in apps:
                await one_step(random, world, app, calm=True)
        group = await described(world)
        assert group.group_state == "Stable", (seed, group)
        count = len(world.node.store.image.topics_by_name[TOPIC].partitions)
        owned = sorted((name, p) for app in apps for name, parts in app.active.items() for p in parts)
        assert owned == [(name, p) for name in "0" for p in range(count)]
        sizes = [sum(map(len, app.active.values())) for app in apps]
        assert max(sizes) - min(sizes) <= 1
        await world.node.stop()

    for seed in range(8):
        run(test(seed))


async def one_step(random: Random, world: World, app: App, *, calm: bool = False, grows: bool = False) -> None:
    stateful = Topology(epoch=0, subtopologies=[part("0", source_topics=[TOPIC])])
    chance = 0.5 if calm else random.random()
    if grows:
        count = len(world.node.store.image.topics_by_name[TOPIC].partitions) + 1
        grow = [CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)]
        request = CreatePartitionsRequest(topics=grow, timeout_ms=1_000, validate_only=False)
        await world.client.ask(request, CreatePartitionsResponse, 3)
    if app.epoch == 0:
        answer = await app.join(stateful)
    elif chance < 0.06:
        answer = await app.ask(-1)
        app.active, app.standby, app.epoch = {}, {}, 0
        return
    elif chance < 0.15:  # the answer is lost
        epoch, active, standby = app.epoch, app.active, app.standby
        await app.beat()
        app.epoch, app.active, app.standby = epoch, active, standby
        return
    elif chance < 0.25:
        answer = await app.beat(silent=True)
    else:
        answer = await app.beat()
    if answer.error_code:
        assert answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID), answer
        app.active, app.standby, app.epoch = {}, {}, 0
