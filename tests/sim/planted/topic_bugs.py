"""Bugs of topics that are deleted and created again by the same name."""

from __future__ import annotations

import pytest

from chronik.broker.image_listener import ImageListener
from chronik.metadata.delta import Delta
from chronik.metadata.image import ConfigResource
from chronik.storage.journal import Journal
from chronik.storage.journal_format import RecordKind
from chronik.storage.log import Log


def log_of_the_old_topic_is_used_for_the_new_one(patch: pytest.MonkeyPatch) -> None:
    """A node that was down meanwhile has a log of that name, and looks no further."""
    clean_up = ImageListener.clean_up

    async def adopt(self: ImageListener) -> None:
        node = self._node
        for log in list(node.logs.all()):
            topic = node.store.image.topic_named(log.topic)
            state = topic.partition(log.partition) if topic is not None else None
            if topic is None or state is None or node.node_id not in state.replicas:
                continue
            del node.logs._logs[log.topic_id, log.partition]
            log.topic_id = topic.topic_id
            node.logs._logs[log.topic_id, log.partition] = log
        await clean_up(self)

    patch.setattr(ImageListener, "clean_up", adopt)


def logs_stay_of_topics_that_went_while_a_node_was_down(patch: pytest.MonkeyPatch) -> None:
    async def leave_all(self: ImageListener) -> None: ...

    patch.setattr(ImageListener, "clean_up", leave_all)


def deletions_are_not_journaled(patch: pytest.MonkeyPatch) -> None:
    """The directory is removed, and the next start restores the journal's records in place of the new log."""
    note = Journal.note

    def forgetful(
        self: Journal, log: Log, kind: RecordKind, segment: int = 0, position: int = 0, offset: int = 0
    ) -> None:
        if kind is not RecordKind.DROP:
            note(self, log, kind, segment, position, offset)

    patch.setattr(Journal, "note", forgetful)


def configs_of_the_old_topic_hold_for_the_new_one(patch: pytest.MonkeyPatch) -> None:
    """It deletes its records as soon as the old topic did, although no one has configured that."""

    def kept(self: Delta, resource: ConfigResource) -> None:
        return None

    patch.setattr(Delta, "_drop_configs", kept)
