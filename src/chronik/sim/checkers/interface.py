"""What a checker is: something that looks on while a world runs, or judges its history in the end, and never acts.

A checker that finds its invariant broken tells the world, which ends the run.
"""

from __future__ import annotations

from typing import NamedTuple

from chronik.metadata.image import Image
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Role
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class Quorum(NamedTuple):
    """What can be seen of one node's part in the quorum at one moment."""

    term: int
    vote: int
    role: Role
    committed: int
    applied: int
    lease_until_ns: int


NOTHING_SEEN = Quorum(0, 0, Role.FOLLOWER, 0, 0, 0)


class Checker:
    """Base of all: each overrides what it needs to see."""

    name: str
    judges_unfinished = False  # `finish` may also be called for a run that ended early, in the middle of anything

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        self.world, self.cluster, self.history = world, cluster, history

    def starting(self, machine: SimMachine) -> None:
        """A process is about to start: the disk is as the last one, or a power cut, left it."""

    def ending(self, machine: SimMachine) -> None:
        """Its process is about to be gone, perhaps in the middle of what it does; it can still be looked at."""

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        """A process has recovered its part in the quorum; `now` is what it begins with."""

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        """Something of it is different after a callback of this process."""

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        """A callback has replaced the metadata image of this process. Also called for its first image."""

    def looked(self, machine: SimMachine) -> None:
        """After every callback of a process, whatever it did. Only who overrides this is called, so it may be dear."""

    def finish(self) -> None:
        """The run is over: every machine is up, all is healed, nobody asks any more."""

    def violated(self, what: str) -> None:
        self.world.violated(self.name, what)
