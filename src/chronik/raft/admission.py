"""Who may use the quorum port: a table of known nodes, and the rule that admits a hello. No I/O.

A *member* is a voter in the configuration file, a member according to this node's log, or a member according to the
log of another member (this node may have been down when it was added). A node that proved to know the quorum's secret
is a member too. A *guest* names the right cluster but is not known. Consensus ignores its messages. It may only ask
whether it is still registered; otherwise a node that was removed while it was down would never find out. All others
are refused.

A node that is in no quorum yet, and has no list of voters, waits to be added by a node that it cannot know. It treats
every node that names a cluster as a member. Only a secret protects it.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import Hello

VOUCHED_MAX = 64  # larger than a quorum; the oldest is dropped


class Admission:
    def __init__(self, node_id: int, configured: Iterable[int] = ()) -> None:
        self._node_id = node_id
        self._configured = frozenset(configured) - {node_id}
        self._members: frozenset[int] = frozenset()  # according to this node's log; includes itself
        self._vouched: dict[int, None] = {}

    def update(self, members: Iterable[int]) -> None:
        self._members = frozenset(members)

    def vouched_for(self, node_id: int) -> None:
        self._vouched[node_id] = None
        if len(self._vouched) > VOUCHED_MAX:
            del self._vouched[next(iter(self._vouched))]

    def vouches_for(self, node_id: int) -> bool:
        """Whether this node confirms to other nodes that a node is a member: only according to its own log."""
        return node_id in self._members and node_id != self._node_id

    def knows(self, node_id: int) -> bool:
        return node_id in self._configured or node_id in self._members or node_id in self._vouched

    @property
    def waits_to_be_added(self) -> bool:
        return not self._configured and self._node_id not in self._members

    def is_member(self, node_id: int) -> bool:
        """For a node whose hello was admitted."""
        return node_id in self._members or self.knows(node_id) or self.waits_to_be_added

    def check(self, hello: Hello, own: Hello) -> None:
        """Raises MalformedMessage unless the sender may be greeted, as a member or as a guest."""
        hello.check_answer_to(own)
        if not hello.cluster_id and not self.knows(hello.sender):
            raise MalformedMessage(
                f"node {hello.sender} names no cluster, and is neither in controller.quorum.voters nor a member: "
                "add it with `chronik cluster add`"
            )
