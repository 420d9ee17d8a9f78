"""Why a share group is behind, in words: from two looks at it."""

from __future__ import annotations

import pytest

from chronik.cli.share_groups import ShareLook, share_causes
from chronik.client.admin.groups import SHARE, Group, GroupMember
from chronik.client.admin.share_groups import Position
from chronik.client.topology import TopicPartition

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def look(positions: dict[TopicPartition, Position], **members: tuple[TopicPartition, ...]) -> ShareLook:
    told = tuple(GroupMember(name, None, name, "host", parts) for name, parts in members.items())
    return ShareLook(Group("g", SHARE, "Stable", "simple", 1, told), positions)


@pytest.mark.parametrize(
    ("before", "after", "causes"),
    [
        (look({AT: Position(0, 5)}), look({AT: Position(0, 5)}), ["no-members"]),
        (look({AT: Position(0, 5)}, a=(AT,)), look({AT: Position(3, 2)}, a=(AT,)), []),
        (look({AT: Position(0, 5)}, a=(AT,)), look({AT: Position(0, 5)}, a=(AT,)), ["nothing-acknowledged"]),
        # Records behind the start were acknowledged: something moves.
        (look({AT: Position(0, 5)}, a=(AT,)), look({AT: Position(0, 4)}, a=(AT,)), []),
        (look({AT: Position(0, 5)}, a=(AT,)), look({AT: Position(0, 9)}, a=(AT,)), ["nothing-acknowledged"]),
        (look({}, a=()), look({}, a=()), ["members-without-partitions"]),
        (
            look({OTHER: Position(0, 5)}, a=(AT,)),
            look({OTHER: Position(0, 5)}, a=(AT,)),
            ["partitions-without-members"],
        ),
        (look({AT: Position(None, None)}, a=(AT,)), look({AT: Position(None, None)}, a=(AT,)), ["not-started"]),
    ],
)
def test_what_is_wrong_has_a_name_and_an_action(before: ShareLook, after: ShareLook, causes: list[str]) -> None:
    """An operator at night reads the sentence and does what it says."""
    found = share_causes(before, after)
    assert [each.name for each in found] == causes
    assert all(each.text and each.action for each in found)
