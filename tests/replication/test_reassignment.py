"""Reassigned replicas: an added replica fetches everything before it counts, a removed one deletes its log."""

from __future__ import annotations

from chronik.metadata.commands.alter_reassignments import AlterReassignments, ReassignedTopic, Reassignment
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


def test_a_replica_that_goes_and_comes_back_at_once_begins_anew() -> None:
    """Both images reach the node together. Its old records are void: it fetches everything before it counts."""

    async def story() -> None:
        world = World(3, replicas=2, spare=0)
        await world.begin()
        await world.until(lambda: world.leader is not None)
        for _ in range(4):
            world.produce(world.nodes[world.controller.partition.leader])
        await world.settle()
        (leaving,) = set(world.controller.partition.replicas) - {world.controller.partition.leader}
        staying, node = world.controller.partition.leader, world.nodes[leaving]
        had = node.logs.get(*KEY)
        await world.until(lambda: node.applied_count == len(world.controller.history))
        for replicas in ([staying], [staying, leaving]):
            move = Reassignment(index=0, replicas=replicas)
            moves = AlterReassignments(topics=[ReassignedTopic(name=TOPIC, partitions=[move])])
            assert not world.controller.decide(moves).topics[0].partitions[0].error_code
        while node.applied_count < len(world.controller.history):
            node._apply_next()
        await world.settle()
        now = node.logs.get(*KEY)
        assert now is not None
        assert now is not had
        assert (now.start_offset, now.end_offset) == (0, world.nodes[staying].logs.get(*KEY).end_offset)  # type: ignore[union-attr]
        assert now.segments
        world.model.check_end()

    run(story)
