"""Schedules in which one node once gets an old image of its disk, while all nodes may lose power at the same time.

`run_seed` raises what the model found. `python -m tests.replication.old_disks --first 0 --seeds 200` lists the seeds
that break a promise. A few still do: without eligible replicas (every fourth seed) a leader that is alone in the ISR
cannot know that its disk is old, and a leader that was not compared with any replica for PROVING_NS appends again.
"""

from __future__ import annotations

import argparse
import asyncio
from copy import deepcopy

from tests.raft import virtual_time
from tests.replication.world import World

STEPS = 60


async def _story(seed: int) -> None:
    world = World(seed, min_insync=2, elr=seed % 4 != 2, unclean=False, replicas=3)
    await world.begin()
    random = world.random
    old_node, image, is_restored = 0, None, False
    for _ in range(STEPS):
        step, nodes = random.random(), list(world.nodes.values())
        if step < 0.45 and nodes:
            world.produce(random.choice(nodes), acks_all=random.random() < 0.8)
            world.produce(random.choice(nodes))
        elif step < 0.56 and nodes:
            node = random.choice(nodes)
            if random.random() < 0.4:
                for each in nodes:
                    world.crash(each.node_id, power_cut=random.random() < 0.3)
            else:
                world.crash(node.node_id, power_cut=random.random() < 0.7)
        elif step < 0.76 and world.dead:
            dead = list(world.dead)
            node_id = old_node if old_node in dead and random.random() < 0.5 else random.choice(dead)
            if node_id == old_node and image is not None and not is_restored:
                world.dead[node_id][0]._root = image
                is_restored = True
                world.model.forget_watermarks()
            await world.start(node_id)
        elif step < 0.82:
            one, other = random.sample([0, *world.node_ids], 2)
            world.wires.separate(one, other)
        elif step < 0.90:
            world.heal()
        elif nodes and image is None and world.model.acked:
            node = random.choice(nodes)
            old_node = node.node_id
            if hasattr(node, "logs"):
                image = deepcopy(node.disk._root)
        await asyncio.sleep(random.choice([0.0, 0.001, 0.004, 0.02, 0.1, 0.5, 1.5]))
        world.check()
    await world.settle()
    if (leader := world.leader) is not None and (last := world.produce(leader)) is not None:
        await last
    await world.settle()
    world.model.check_end()


def run_seed(seed: int) -> None:
    virtual_time.run(lambda: _story(seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            run_seed(seed)
        except Exception as error:  # noqa: BLE001 - whatever a seed shows
            failed += 1
            print(f"{seed}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
    print(f"{options.seeds} seeds, {failed} failed")


if __name__ == "__main__":
    main()
