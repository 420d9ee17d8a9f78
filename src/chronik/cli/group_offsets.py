"""`chronik group delete-offsets`: forgets what a group has committed for a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.output import Column, Row, human_count, print_rows
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, complain, confirm, progress, run

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("committed", "WAS COMMITTED", human_count, is_number=True),
)


def delete_offsets(
    name: str,
    *,
    topic: Annotated[tuple[str, ...], Parameter(name=["--topic", "-t"])],
    partition: Annotated[tuple[int, ...], Parameter(name=["--partition", "-p"])] = (),
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Delete a group's offsets of topics that it no longer reads. Asks first on a terminal.

    Offsets of a topic that a member is subscribed to are refused. A share group must have no members, and its offsets
    of all partitions of a topic are deleted together.

    For example:
      chronik group delete-offsets billing --topic old-orders
      chronik group delete-offsets billing --topic orders --partition 7 --yes

    Parameters
    ----------
    name
        Name of the group.
    topic
        Topic whose offsets to delete; repeatable.
    partition
        Only this partition of each topic; repeatable; default: all that have an offset.
    yes
        Do not ask.
    """
    if not yes:
        confirm(f"Delete offsets of {name} for {', '.join(topic)}?")

    async def work(cluster: ClusterClient) -> int:
        from chronik.cli.group import existing_group
        from chronik.client.admin import groups, offsets

        group = await existing_group(cluster, name)
        if group.group_type == groups.SHARE:
            return await _forget(cluster, name, topic, partition, options)
        with progress("deleting offsets"):
            committed = await offsets.committed(cluster, name)
            chosen = [at for at in committed if at.topic in topic and (not partition or at.partition in partition)]
            if not chosen:
                raise CommandFailed(f"group {name!r} has no such offsets: `chronik group describe {name}` shows them")
            answers = await offsets.delete(cluster, name, chosen)
        rows: list[Row] = [
            {"topic": at.topic, "partition": at.partition, "committed": committed[at].offset}
            for at, fault in answers.items()
            if fault is None
        ]
        for fault in answers.values():
            if fault is not None:
                complain(str(fault))
        if rows:
            print_rows(rows, COLUMNS, as_json=options.wants_json)
        return REFUSED if any(answers.values()) else DONE

    return run(options, work)


async def _forget(
    cluster: ClusterClient, name: str, topics: Sequence[str], only: Sequence[int], options: Options
) -> int:
    """Of a share group."""
    from chronik.client.admin import share_groups

    if only:
        raise Misused("a share group's offsets are deleted for whole topics: leave out --partition")
    with progress("deleting offsets"):
        known = await share_groups.positions(cluster, name)
        answers = await share_groups.forget(cluster, name, topics)
    gone = {topic for topic, fault in answers.items() if fault is None}
    rows: list[Row] = [
        {"topic": at.topic, "partition": at.partition, "committed": each.start_offset}
        for at, each in known.items()
        if at.topic in gone
    ]
    for fault in answers.values():
        if fault is not None:
            complain(str(fault))
    if rows:
        print_rows(rows, COLUMNS, as_json=options.wants_json)
    return REFUSED if any(answers.values()) else DONE
