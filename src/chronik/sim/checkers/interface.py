"""The interface of checkers: they observe a running world, or judge its history at the end, and never act.

A checker whose invariant is broken reports it to the world, which ends the run.
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
    """The observable Raft state of one node at one moment."""

    term: int
    vote: int
    role: Role
    committed: int
    applied: int
    lease_until_ns: int


NOTHING_SEEN = Quorum(0, 0, Role.FOLLOWER, 0, 0, 0)


class Checker:
    """Base of all checkers; override the events that you need."""

    name: str
    judges_unfinished = False  # `finish` also works for a run that ended early, at any point

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        self.world, self.cluster, self.history = world, cluster, history

    def starting(self, machine: SimMachine) -> None:
        """A process is about to start. The disk is as the last process or a power cut left it."""

    def ending(self, machine: SimMachine) -> None:
        """Its process is about to be killed, at any point; its state can still be read."""

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        """A process has recovered its Raft state; `now` is its initial state."""

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        """The Raft state changed in a callback of this process."""

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        """A callback replaced the metadata image of this process. Also called for its first image."""

    def looked(self, machine: SimMachine) -> None:
        """Called after every callback of a process, but only if overridden, so it may be expensive."""

    def finish(self) -> None:
        """The run is over: every machine is up, all faults are healed, clients are done."""

    def violated(self, what: str) -> None:
        self.world.violated(self.name, what)
