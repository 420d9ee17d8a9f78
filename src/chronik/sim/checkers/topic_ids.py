"""Invariants of topics that are deleted and created again with the same name. Identified by topic id, never by name.

7: acknowledged records of a topic id are readable while that id exists. 8: a topic serves only records that were sent
to it, never those of an earlier topic of its name. A producer that sends in order never gets an out-of-order error
there, because no earlier sequence exists either. A deleted id never comes back, and none disappears without a deletion.
Requests with a former id or leader epoch are refused.
"""

from __future__ import annotations

from chronik.metadata.image import Image
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.records import AcknowledgedIsReadable
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import OK, REFUSED, History, Operation
from chronik.sim.topic_id_clients import OUT_OF_ORDER, topic_id_of
from chronik.sim.topic_operators import CREATE, DELETE
from chronik.sim.world import World

# Requests with former ids and epochs, sent after all faults are healed.
STALE_READ, STALE_PRODUCE = "stale read", "stale produce"
LOG_START = "log start"  # the log start offset at that time


def existing(cluster: SimCluster) -> Image:
    """The leader's image at the end."""
    leader = cluster.leader()
    assert leader is not None
    assert leader.program is not None
    assert leader.program.store is not None
    return leader.program.store.image


class AcknowledgedIsReadableById(AcknowledgedIsReadable):
    def finish(self) -> None:
        self._topics = existing(self.cluster).topics
        operations = self.history.operations
        self._starts = {each.key: each.result for each in operations if each.kind == LOG_START and each.status == OK}
        creations = [each for each in operations if each.kind == CREATE]
        self._lasting = {each.result for each in creations if each.status == OK and not each.value.is_short_lived}
        # The ids of creations whose answer was lost are unknown.
        self._lost = {each.key for each in creations if each.status not in (OK, REFUSED) and each.value.is_short_lived}
        self._short = {each.result for each in creations if each.status == OK and each.value.is_short_lived}
        super().finish()

    def is_kept(self, produced: Operation) -> bool:
        """Covers topics that exist at the end. Those with a short retention may have deleted the record."""
        topic_id = topic_id_of(produced.key)
        if topic_id is None:
            return True
        topic = self._topics.get(topic_id)
        if topic is None:
            return False
        may_forget = topic_id in self._short or (topic_id not in self._lasting and topic.name in self._lost)
        return not may_forget or produced.result >= self._starts.get(produced.key, 0)


class NothingFromElsewhere(Checker):
    name = "8 a topic serves what was sent to it alone"

    def finish(self) -> None:
        sent: dict[str, str] = {}
        for operation in self.history.operations:
            if operation.kind == "produce":
                sent[operation.value] = operation.key
                if operation.result == OUT_OF_ORDER:
                    self.violated(f"{operation}: it was sent in order")
        for operation in self.history.operations:
            if operation.kind in ("read", STALE_READ) and operation.status == OK:
                for offset, value in operation.result:
                    if sent.get(value) != operation.key:
                        self.violated(f"{operation}: {value!r} at {offset} was sent to {sent.get(value)}")


class DeletedForEver(Checker):
    """Checks every image of every node: an id missing from a later version is missing from all versions after that."""

    name = "5 a deleted topic never comes back"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._names: dict[bytes, str] = {}
        self._seen: dict[bytes, tuple[int, int]] = {}  # id: first and last version with it
        self._gone: dict[bytes, int] = {}  # id: first later version known to lack it
        self._images: dict[int, Image] = {}

    def looked(self, machine: SimMachine) -> None:
        store = machine.program.store if machine.program is not None else None
        image = store.image if store is not None else None
        if image is None or image is self._images.get(machine.node_id):
            return
        self._images[machine.node_id] = image
        for topic in image.all_topics():
            self._names[topic.topic_id] = topic.name
            first, last = self._seen.get(topic.topic_id, (image.version, image.version))
            self._seen[topic.topic_id] = (min(first, image.version), max(last, image.version))
        for topic_id, (first, _) in self._seen.items():
            if image.version > first and image.topic(topic_id) is None:
                self._gone[topic_id] = min(image.version, self._gone.get(topic_id, image.version))
        for topic_id, version in self._gone.items():
            last = self._seen[topic_id][1]
            if last >= version:
                self.violated(f"{machine}: {self._told(topic_id)} is gone in version {version} and there in {last}")

    def finish(self) -> None:
        image = existing(self.cluster)
        deletions = [each for each in self.history.operations if each.kind == DELETE and each.status != REFUSED]
        for deletion in deletions:
            if deletion.status == OK and image.topic(deletion.result) is not None:
                self.violated(f"{deletion}, and {self._told(deletion.result)} is there")
            if deletion.status == OK and deletion.value not in (None, deletion.result):
                self.violated(f"{deletion} took another topic than the one that was asked for")
        for creation in self.history.operations:
            if creation.kind == CREATE and creation.status == OK and image.topic(creation.result) is None:
                self._explain(creation.result, creation.key, deletions)
        for topic_id, name in self._names.items():
            if image.topic(topic_id) is None:
                self._explain(topic_id, name, deletions)

    def _explain(self, topic_id: bytes, name: str, deletions: list[Operation]) -> None:
        """Explains the deletion by an answered request, or by one whose answer was lost."""
        for deletion in deletions:
            if topic_id == (deletion.result if deletion.status == OK else deletion.value or topic_id) and (
                deletion.key == name
            ):
                return
        self.violated(f"{name} {topic_id.hex()} is gone, and nobody deleted it")

    def _told(self, topic_id: bytes) -> str:
        return f"{self._names.get(topic_id)} {topic_id.hex()}"


class ThePastIsRefused(Checker):
    name = "11 who asks by an id or epoch of the past is refused"

    def finish(self) -> None:
        for operation in self.history.operations:
            if operation.kind in (STALE_READ, STALE_PRODUCE) and operation.status == OK:
                self.violated(f"{operation} was served")
