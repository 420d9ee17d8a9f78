"""Observes a process after each callback and reports changes to the checkers. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chronik.metadata.image import Image
from chronik.metadata.store import MetadataStore
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Role
from chronik.sim.checkers.interface import NOTHING_SEEN, Checker, Quorum
from chronik.sim.cluster import SimMachine


def look_at(machine: SimMachine, checkers: Sequence[Checker]) -> Callable[[], None]:
    program = machine.program
    assert program is not None
    raft: RaftNode | None = None
    before = NOTHING_SEEN
    store: MetadataStore | None = None
    image: Image | None = None
    always = [checker.looked for checker in checkers if type(checker).looked is not Checker.looked]

    def look() -> None:
        nonlocal raft, before, store, image
        if raft is None:
            raft = program.raft
            if raft is None:
                return
            store = program.store
            before = Quorum._make(_seen(raft))
            for checker in checkers:
                checker.started(machine, raft, before)
            return
        core = raft._core  # inlines `_seen`: this runs after every callback
        found = core.term, core.vote, core.role, core.log.committed, raft._applied_index, raft._lease.until_ns
        if found != before:
            seen, before = before, (now := Quorum._make(found))
            if now.role is not seen.role or now.term != seen.term:
                machine.world.note(machine.host, f"is {now.role.name.lower()} in term {now.term}")
            for checker in checkers:
                checker.changed(machine, raft, seen, now)
        if store is not None and store.image is not image:
            image = store.image
            for checker in checkers:
                checker.saw_image(machine, image)
        for looked in always:
            looked(machine)

    return look


def _seen(raft: RaftNode) -> tuple[int, int, Role, int, int, int]:
    """The fields of a `Quorum`. Most observations find no change, and comparing plain tuples is the cheapest check."""
    core = raft._core
    return core.term, core.vote, core.role, core.log.committed, raft._applied_index, raft._lease.until_ns
