"""A transaction that begins while the one before it completes: one commit covers both, in the order of the log."""

from __future__ import annotations

import asyncio

import pytest

from chronik.coordinator.transactions.transaction import State
from chronik.wire.error_codes import ErrorCode
from tests.coordinator.transactions.test_coordinator import CONCURRENT, NONE, P0, P1, World, play
from tests.coordinator.virtual import Refused, let_everything_happen


def test_a_completion_and_the_next_beginning_share_one_commit() -> None:
    """A producer that begins again at once waits for the markers and one commit, not for two."""

    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        adding = asyncio.ensure_future(world.add(after, P1))
        await let_everything_happen()
        world.partition.commits_at_once = False
        world.markers.finish()
        assert len(world.partition.log) == 5, "both are in the log in the same iteration of the loop"
        await let_everything_happen()
        assert not adding.done(), "nothing is answered before it is committed"
        assert world.current.state is State.PREPARE_COMMIT
        world.partition.commit()
        assert await adding == {NONE}
        assert (world.current.state, world.current.partitions) == (State.ONGOING, frozenset({P1}))

    play(story)


def test_a_beginning_follows_a_completion_that_is_in_the_log_already() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        world.partition.commits_at_once = False
        world.markers.finish()
        adding = asyncio.ensure_future(world.add(after, P1))
        await let_everything_happen()
        assert await world.end(after) == (CONCURRENT, -1, -1), "only a beginning may follow"
        world.partition.commit(world.partition.end_offset - 1)
        await let_everything_happen()
        assert (world.current.state, adding.done()) == (State.COMPLETE_COMMIT, False)
        world.partition.commit()
        assert await adding == {NONE}

    play(story)


def test_of_two_that_begin_behind_a_completion_the_second_comes_later() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        adding = [asyncio.ensure_future(world.add(after, each)) for each in (P0, P1)]
        await let_everything_happen()
        world.partition.commits_at_once = False
        world.markers.finish()
        await let_everything_happen()
        assert len(world.partition.log) == 5
        world.partition.commits_at_once = True
        world.partition.commit()
        assert [await each for each in adding] == [{NONE}, {NONE}]
        assert world.current.partitions == {P0, P1}

    play(story)


def test_a_beginning_that_the_log_refuses_leaves_the_completion_alone() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        world.partition.commits_at_once = False
        world.markers.finish()
        world.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert await world.add(after, P1) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        world.partition.refuses_with = None
        world.partition.commit()
        await let_everything_happen()
        assert world.current.state is State.COMPLETE_COMMIT
        world.partition.commits_at_once = True
        assert await world.add(after, P1) == {NONE}

    play(story)


@pytest.mark.parametrize(("surviving", "state"), [(0, State.PREPARE_COMMIT), (1, State.COMPLETE_COMMIT)])
def test_the_next_leader_has_the_completion_or_both(surviving: int, state: State) -> None:
    """In the log a beginning always follows its completion, so no prefix of the log contradicts the markers."""

    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        world.partition.commits_at_once = False
        world.markers.finish()
        adding = asyncio.ensure_future(world.add(after, P1))
        await let_everything_happen()
        await world.fail_over(surviving_offset=world.partition.committed_offset + surviving)
        assert await adding == {ErrorCode.NOT_COORDINATOR}
        assert world.current.state is state

    play(story)
