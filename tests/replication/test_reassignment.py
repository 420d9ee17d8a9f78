"""Replicas that move: whoever comes fetches everything before it counts, whoever goes deletes what it had."""

from __future__ import annotations

from chronik.metadata.commands import AlterReassignments, ReassignedTopic, Reassignment
from tests.raft.virtual_time import run
from tests.replication.model import KEY, TOPIC
from tests.replication.world import World


def test_a_partition_moves_to_other_nodes_while_it_is_written_to() -> None:
    """The leader goes too. Nothing acknowledged is lost on the way, and the old places are empty afterwards."""

    async def story() -> None:
        world = World(3, replicas=3, spare=2)
        await world.begin()
        for _ in range(5):
            world.produce(world.nodes[world.controller.partition.leader])
        move = Reassignment(index=0, replicas=[4, 5, 3])
        moves = AlterReassignments(topics=[ReassignedTopic(name=TOPIC, partitions=[move])])
        reply = world.controller.decide(moves)
        assert not reply.topics[0].partitions[0].error_code
        while world.controller.partition.replicas != (4, 5, 3):
            leader = world.leader
            if leader is not None:
                world.produce(leader)
            await world.until(lambda: world.draw(10) == 0)
        await world.settle()
        world.model.check_end()
        assert len(world.model.acked) > 5
        for node_id in (1, 2):
            assert world.nodes[node_id].logs.get(*KEY) is None
            assert world.nodes[node_id].replicas.opened(KEY) is None

    run(story)
