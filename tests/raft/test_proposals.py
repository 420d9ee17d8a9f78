"""Waiters for commands and read points: each gets its result exactly once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from chronik.raft.errors import Dropped, MembershipRefused, NotLeader, OutcomeUnknown
from chronik.raft.messages import Entry, EntryKind, Membership, ReadState
from chronik.raft.proposals import Proposals
from chronik.raft.read_points import ReadPoints
from tests.raft.test_core import core, handle
from tests.raft.virtual_time import run


def alone():
    node = core(members=Membership((1,)))
    node.campaign()
    handle(node)
    return node


def test_a_command_is_answered_with_the_index_of_its_own_entry() -> None:
    async def story() -> None:
        node = alone()
        proposals = Proposals(node)
        waiting = [proposals.add(Entry(0, 0, EntryKind.NORMAL, data)) for data in (b"a", b"b")]
        proposals.take()
        entries = node.ready().entries
        proposals.applied(entries[0])
        assert waiting[0].result() == entries[0].index == 7
        assert not waiting[1].done()

    run(story)


def test_an_entry_of_another_term_in_its_place_means_it_never_was() -> None:
    async def story() -> None:
        proposals = Proposals(alone())
        waiting = proposals.add(Entry(0, 0, EntryKind.NORMAL, b"a"))
        proposals.take()
        proposals.applied(Entry(9, 7, EntryKind.NORMAL, b"another leader's"))
        with pytest.raises(Dropped):
            waiting.result()

    run(story)


def test_a_change_that_left_an_empty_entry_was_refused() -> None:
    async def story() -> None:
        node = alone()
        proposals = Proposals(node)
        waiting = proposals.add(Entry(0, 0, EntryKind.CHANGE, b"not a change"))
        proposals.take()
        proposals.applied(node.ready().entries[0])
        with pytest.raises(MembershipRefused):
            waiting.result()

    run(story)


def test_losing_the_leadership_leaves_the_outcome_open_and_refusing_does_not() -> None:
    async def story() -> None:
        node = alone()
        proposals = Proposals(node)
        standing = proposals.add(Entry(0, 0, EntryKind.NORMAL, b"a"))
        proposals.take()
        new = proposals.add(Entry(0, 0, EntryKind.NORMAL, b"b"))
        cancelled = proposals.add(Entry(0, 0, EntryKind.NORMAL, b"c"))
        cancelled.cancel()
        proposals.lose(OutcomeUnknown("lost"))
        proposals.refuse(Dropped("refused"))
        assert isinstance(standing.exception(), OutcomeUnknown)
        assert isinstance(new.exception(), Dropped)
        with pytest.raises(NotLeader):
            Proposals(core(2)).add(Entry(0, 0)).result()

    run(story)


def test_a_read_waits_until_its_point_is_applied() -> None:
    """The point is where the leader was; this node may not be there yet."""

    async def story() -> None:
        node = alone()
        points = ReadPoints(node, b"12345678", retry_ticks=3)
        reads = [points.ask(), points.ask()]
        points.take()
        (state,) = node.ready().read_states
        points.confirmed(replace(state, index=9))
        points.applied(8)
        assert not reads[0].done()
        points.applied(9)
        assert [read.result() for read in reads] == [9, 9]

    run(story)


def test_a_read_nobody_answers_is_asked_again() -> None:
    async def story() -> None:
        node = core(2)  # knows no leader: the request goes nowhere
        points = ReadPoints(node, b"12345678", retry_ticks=3)
        read, given_up = points.ask(), points.ask()
        points.take()
        given_up.cancel()
        for _ in range(3):
            points.tick()
        asked: list[bytes] = []
        node.read_index = asked.append
        points.take()
        assert len(asked) == 1
        points.confirmed(ReadState(5, asked[0]))
        assert read.result() == 5
        points.confirmed(ReadState(5, b"an answer to an earlier start of this node"))

    run(story)


def test_readers_of_a_stopped_node_hear_of_it() -> None:
    async def story() -> None:
        points = ReadPoints(core(2), b"12345678", retry_ticks=3)
        asked = points.ask()
        points.take()
        new = points.ask()
        points.fail(OutcomeUnknown("stopped"))
        assert isinstance(asked.exception(), OutcomeUnknown)
        assert isinstance(new.exception(), OutcomeUnknown)
        await asyncio.sleep(0)

    run(story)
