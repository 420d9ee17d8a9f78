"""DeleteRecords on a replicated partition: deleted records stay deleted, whichever replica leads next."""

from __future__ import annotations

from tests.raft.virtual_time import run
from tests.replication.world import World


def test_deleted_records_do_not_come_back_with_another_leader() -> None:
    """Nothing is written meanwhile, so only the news of the start itself can tell the followers."""

    async def story() -> None:
        world = World(3)
        await world.begin()
        await world.until(lambda: world.leader is not None)
        for _ in range(4):
            world.produce(world.nodes[world.controller.partition.leader])
        await world.settle()
        leader = world.leader
        assert leader is not None
        assert leader.replica is not None
        offset = leader.replica.high_watermark
        deleting = leader.replica.delete_before(offset, timeout_ms=30_000)
        assert deleting is not None
        await deleting
        starts = {node.node_id: node.replica.log.start_offset for node in world.nodes.values() if node.replica}
        assert starts == dict.fromkeys(world.controller.partition.isr, offset)
        world.crash(leader.node_id)
        await world.until(lambda: world.leader is not None and world.leader is not leader)
        assert world.leader is not None
        assert world.leader.replica is not None
        assert world.leader.replica.log.start_offset == offset

    run(story)
