"""Verbs of `chronik topic` about partitions: deleting records, electing leaders, changing the number of replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chronik.cli.deleting import show_records
from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.moments import parse_place
from chronik.cli.naming import existing_partitions
from chronik.cli.output import Column, Row, human_count, print_rows
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, complain, confirm, progress, run
from chronik.runtime.wording import counted
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.consumer import Start
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

LOOK_EVERY_S = 0.1
LOOKS_MAX = 50

DELETED_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("start_offset", "START WAS", human_count, is_number=True),
    Column("new_start_offset", "START", human_count, is_number=True),
)
ELECTED_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("old_leader", "LEADER WAS", is_number=True),
    Column("leader", "LEADER", is_number=True),
)


def delete_records(
    name: str,
    *,
    before: str,
    partition: Annotated[tuple[int, ...], Parameter(name=["--partition", "-p"])] = (),
    dry_run: bool = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Delete the oldest records of a topic. This cannot be undone. Asks first on a terminal.

    Records before the given position are deleted; the position becomes the start of the partition. Topics whose
    cleanup.policy is only compact refuse this.

    For example:
      chronik topic delete-records orders --before 1500 --partition 2
      chronik topic delete-records orders --before "7d ago" --dry-run
      chronik topic delete-records orders --before latest --yes

    Parameters
    ----------
    name
        Name of the topic.
    before
        Delete what is before this position: an offset, a time with a time zone, 2h ago, or latest for all records.
    partition
        Only this partition; repeatable; default: all.
    dry_run
        Delete nothing; show how many records would be deleted.
    yes
        Do not ask.
    """
    place = parse_place(before, "--before", time.time_ns() // 1_000_000)
    if place == EARLIEST:
        raise Misused("--before earliest deletes nothing: use an offset, a time or latest")
    if not yes and not dry_run:
        confirm(f"Delete records of {name} before {before}?")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import offsets
        from chronik.client.errors import ClientError

        places = await existing_partitions(cluster, name, partition)
        if dry_run:
            return await show_records(cluster, await _limits(cluster, places, place), options)
        with progress("deleting records"):
            starts = await offsets.look_up(cluster, dict.fromkeys(places, EARLIEST))
            limits = await _limits(cluster, places, place)
            answers = await offsets.delete_records(cluster, limits)
        rows: list[Row] = []
        exit_code = DONE
        for at, told in sorted(answers.items()):
            if isinstance(told, ClientError):
                complain(str(told))
                exit_code = REFUSED
                continue
            start = starts.get(at)
            was = start.offset if isinstance(start, offsets.OffsetAt) else None
            rows.append({"topic": at.topic, "partition": at.partition, "start_offset": was, "new_start_offset": told})
        if rows:
            print_rows(rows, DELETED_COLUMNS, as_json=options.wants_json)
        return exit_code

    return run(options, work)


def elect(
    *names: str,
    partition: Annotated[tuple[int, ...], Parameter(name=["--partition", "-p"])] = (),
    unclean: bool = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Make the preferred replica of each partition its leader again.

    The preferred replica is the first one that `chronik topic describe` shows. It must be in sync.

    For example:
      chronik topic elect
      chronik topic elect orders --partition 2
      chronik topic elect orders --partition 2 --unclean

    Parameters
    ----------
    names
        Names of the topics; default: all.
    partition
        Only this partition of each topic; repeatable; default: all.
    unclean
        Elect any live replica of a partition without a leader. Acknowledged records that it lacks are lost.
    yes
        Do not ask before an unclean election.
    """
    if (partition or unclean) and not names:
        raise Misused(f"{'--unclean' if unclean else '--partition'} needs the names of topics")
    if unclean and not yes:
        confirm(f"Elect leaders of {', '.join(names)} that may lack acknowledged records?")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import reassignments

        kind = reassignments.UNCLEAN if unclean else reassignments.PREFERRED
        places = [at for name in names for at in await existing_partitions(cluster, name, partition)]
        with progress("electing leaders"):
            before = await _leaders(cluster, names)
            answers = await reassignments.elect(cluster, places if names else None, kind=kind)
            accepted = [at for at, fault in answers.items() if fault is None]
            after = await _leaders(cluster, names, until_preferred=() if unclean else accepted)
        for fault in answers.values():
            if fault is not None:
                complain(str(fault))
        rows: list[Row] = [
            {"topic": at.topic, "partition": at.partition, "old_leader": before.get(at), "leader": leader}
            for at, leader in sorted(after.items())
            if leader != before.get(at)
        ]
        print_rows(rows, ELECTED_COLUMNS, as_json=options.wants_json, empty="No leader changed.")
        return REFUSED if any(answers.values()) else DONE

    return run(options, work)


async def change_replication_factor(cluster: ClusterClient, name: str, factor: int) -> None:
    """Returns when every partition of the topic has this many replicas, in sync."""
    from chronik.cli.moving import carry_out
    from chronik.client.admin.balance import CannotPlace
    from chronik.client.admin.resizing import resized
    from chronik.client.topology import TopicPartition

    topology = await cluster.retrying(lambda: cluster.refresh(None))
    everywhere = {
        TopicPartition(topic.name, each.partition): each
        for topic in topology.topics.values()
        for each in topic.partitions.values()
    }
    placed = {at: each.replicas for at, each in everywhere.items()}
    changing = {at: each.isr for at, each in everywhere.items() if at.topic == name}
    racks = {broker.node_id: broker.rack for broker in topology.brokers.values()}
    if factor > len(racks):
        raise CommandFailed(f"{counted(factor, 'replica')} need as many brokers, and {len(racks)} are alive")
    try:
        targets = resized(racks, placed, changing, factor)
    except CannotPlace as fault:
        raise CommandFailed(str(fault)) from fault
    with progress(f"moving {counted(len(targets), 'partition')}") as shown:
        await carry_out(cluster, targets, lambda standing: shown.say(str(standing)))


async def _limits(cluster: ClusterClient, places: list[TopicPartition], place: Start) -> dict[TopicPartition, int]:
    """The offset before which each partition is cut; -1 is the end. A time after the last record cuts everything."""
    from chronik.client.admin import offsets
    from chronik.client.consumer import AtTime

    if not isinstance(place, AtTime):
        return dict.fromkeys(places, place)
    found = await offsets.look_up(cluster, dict.fromkeys(places, place.timestamp_ms))
    limits = {}
    for at, told in found.items():
        if not isinstance(told, offsets.OffsetAt):
            raise told
        limits[at] = LATEST if told.offset == offsets.NONE else told.offset
    return limits


async def _leaders(
    cluster: ClusterClient, names: Collection[str], *, until_preferred: Collection[TopicPartition] = ()
) -> dict[TopicPartition, int | None]:
    """Brokers learn of an election a moment after the controller, so a caller that waits for it checks repeatedly."""
    from chronik.client.topology import NO_LEADER, TopicPartition

    looks = 0
    while True:
        looks += 1
        topology = await cluster.retrying(lambda: cluster.refresh(list(names) or None))
        found = {
            TopicPartition(topic.name, each.partition): each
            for topic in topology.topics.values()
            if topic.name in names or not names
            for each in topic.partitions.values()
        }
        preferred_lead = all(found[at].leader_id == found[at].replicas[0] for at in until_preferred if at in found)
        if preferred_lead or looks == LOOKS_MAX:
            return {at: None if each.leader_id == NO_LEADER else each.leader_id for at, each in found.items()}
        await asyncio.sleep(LOOK_EVERY_S)
