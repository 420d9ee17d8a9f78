"""`--dry-run` of commands that delete: what would be gone, with nothing deleted and nothing asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, Row, human_count, print_rows
from chronik.cli.session import DONE, REFUSED, Options, complain
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

TOPIC_COLUMNS = (
    Column("name", "TOPIC"),
    Column("partitions", "PARTITIONS", is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
)
GROUP_COLUMNS = (
    Column("group", "GROUP"),
    Column("state", "STATE"),
    Column("members", "MEMBERS", is_number=True),
    Column("offsets", "OFFSETS", human_count, is_number=True),
)
RECORD_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("start_offset", "START", human_count, is_number=True),
    Column("new_start_offset", "NEW START", human_count, is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
)


async def show_topics(cluster: ClusterClient, names: Sequence[str], options: Options, *, if_exists: bool) -> int:
    """Offsets between start and end; compacted topics and transactions have fewer records."""
    from chronik.client.admin import offsets
    from chronik.client.topology import TopicPartition

    known = (await cluster.retrying(lambda: cluster.refresh(None))).topics
    rows: list[Row] = []
    exit_code = DONE
    for name in names:
        if name not in known:
            if not if_exists:
                complain(f"topic {name!r} does not exist: UNKNOWN_TOPIC_OR_PARTITION{did_you_mean(name, known)}")
                exit_code = REFUSED
            continue
        places = [TopicPartition(name, index) for index in known[name].partitions]
        found = await offsets.bounds(cluster, places)
        total = sum(end - start for start, end in found.values())
        rows.append({"name": name, "partitions": len(places), "records": total})
    if rows:
        print_rows(rows, TOPIC_COLUMNS, as_json=options.wants_json)
    return exit_code


async def show_groups(cluster: ClusterClient, names: Sequence[str], options: Options) -> int:
    """A group with members would be refused, so that is an error here too."""
    from chronik.client.admin import groups, offsets, share_groups
    from chronik.client.errors import Refused

    rows: list[Row] = []
    exit_code = DONE
    for name in names:
        try:
            found = await groups.describe(cluster, name)
        except Refused as fault:
            complain(str(fault))
            exit_code = REFUSED
            continue
        is_share = found.group_type == groups.SHARE
        committed = await (share_groups.positions if is_share else offsets.committed)(cluster, name)
        members = len(found.members)
        rows.append({"group": name, "state": found.state, "members": members, "offsets": len(committed)})
        if members:
            complain(f"group {name!r} has {counted(members, 'member')}: NON_EMPTY_GROUP; stop them first")
            exit_code = REFUSED
    if rows:
        print_rows(rows, GROUP_COLUMNS, as_json=options.wants_json)
    return exit_code


async def show_records(cluster: ClusterClient, limits: Mapping[TopicPartition, int], options: Options) -> int:
    """`limits` are the new starts, -1 for the end."""
    from chronik.client.admin import offsets

    rows: list[Row] = []
    exit_code = DONE
    for at, (start, end) in sorted((await offsets.bounds(cluster, list(limits))).items()):
        new_start = end if limits[at] < 0 else max(limits[at], start)
        if new_start > end:
            complain(f"{at.topic}-{at.partition} ends at {end}, before {new_start}: OFFSET_OUT_OF_RANGE")
            exit_code = REFUSED
            continue
        place = {"topic": at.topic, "partition": at.partition, "start_offset": start}
        rows.append({**place, "new_start_offset": new_start, "records": new_start - start})
    if rows:
        print_rows(rows, RECORD_COLUMNS, as_json=options.wants_json)
    return exit_code
