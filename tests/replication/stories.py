"""Random schedules: appends on any node that believes it leads, crashes, network cuts, slow images; then all nodes come
back.

One seed is one schedule. `run_seed` raises what the model found. In `run_full_seed`, disks are sometimes full as well,
or refuse records although they have space.
"""

from __future__ import annotations

import asyncio

from tests.raft import virtual_time
from tests.replication.model import KEY
from tests.replication.world import World

STEPS = 60
FULL_SHARE = 0.1  # of the steps
LEFT_BYTES = (0, 60, 300)


async def _story(seed: int, full_share: float) -> World:
    choice = seed % 8
    keeps_page_cache = choice == 6  # what durability=os relies on
    world = World(
        seed,
        min_insync=2 if choice in (1, 2, 3, 5) else 1,
        elr=choice in (2, 3),
        durability="os" if keeps_page_cache else "fsync",
        unclean=choice == 7,
        replicas=2 if choice == 4 else 3,
    )
    await world.begin()
    random = world.random
    for _ in range(STEPS):
        if full_share and random.random() < full_share:
            _fill_or_free(world)
        step = random.random()
        nodes = list(world.nodes.values())
        if step < 0.55 and nodes:
            world.produce(random.choice(nodes), acks_all=random.random() < 0.8)
            world.produce(random.choice(nodes))
        elif step < 0.65 and nodes:
            world.crash(random.choice(nodes).node_id, power_cut=random.random() < 0.7 and not keeps_page_cache)
        elif step < 0.80 and world.dead:
            node_id = random.choice(list(world.dead))
            world.dead[node_id][0].heal()  # a process does not start on a full disk
            await world.start(node_id, wiped=random.random() < 0.15 and world.may_lose_its_disk(node_id))
        elif step < 0.90:
            one, other = random.sample([0, *world.node_ids], 2)
            world.wires.separate(one, other)
        elif step < 0.96:
            world.heal()
        await asyncio.sleep(random.choice([0.0, 0.001, 0.004, 0.02, 0.1, 0.5, 1.5]))
        world.check()
    for disk in [node.disk for node in world.nodes.values()] + [each[0] for each in world.dead.values()]:
        disk.heal()
    await world.settle()
    leader = world.leader
    assert leader is not None
    last = world.produce(leader)
    if last is not None:
        await last
    await world.settle()
    world.model.check_end()
    return world


def _fill_or_free(world: World) -> None:
    random = world.random
    if not world.nodes:
        return
    node = random.choice(list(world.nodes.values()))
    what = random.choice(["fill", "free", "refuse"])
    if what == "fill":
        node.disk.fill(random.choice(LEFT_BYTES))
    elif what == "free":
        node.disk.heal()
    elif node.has_begun:
        node.replicas.full.met(KEY)


def run_seed(seed: int) -> World:
    return virtual_time.run(lambda: _story(seed, 0))


def run_full_seed(seed: int) -> World:
    return virtual_time.run(lambda: _story(seed, FULL_SHARE))
