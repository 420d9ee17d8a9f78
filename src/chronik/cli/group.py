"""`chronik group`: list, describe, explain, reset and delete groups, of consumers and of share consumers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from chronik.cli.deleting import show_groups
from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.group_offsets import delete_offsets
from chronik.cli.moments import parse_place
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, Row, human_count, human_duration, print_json, print_rows, yes_or_no
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, complain, confirm, progress, run
from chronik.cli.share_groups import SHARE, SHARE_COLUMNS, described_share, look_at, share_causes
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.admin.groups import Group
    from chronik.client.routing import ClusterClient

app = App(
    name="group",
    help="""\
List, describe, explain, reset and delete groups.

For example:
  chronik group list
  chronik group describe billing
  chronik group explain billing
  chronik group reset billing --to "2h ago"
  chronik group reset billing --to "2h ago" --execute
  chronik group delete-offsets billing --topic old-orders
  chronik group delete billing""",
)

app.command(delete_offsets)

EXPLAIN_SECONDS_MAX = 600

LISTED_COLUMNS = (
    Column("group", "GROUP"),
    Column("type", "TYPE"),
    Column("state", "STATE"),
    Column("coordinator", "COORDINATOR", is_number=True),
)
MEASURED_COLUMNS = (
    Column("members", "MEMBERS", human_count, is_number=True),
    Column("lag", "LAG", human_count, is_number=True),
    Column("lag_ms", "BEHIND", human_duration, is_number=True),
)
RESET_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("old_offset", "FROM", human_count, is_number=True),
    Column("new_offset", "TO", human_count, is_number=True),
    Column("shift", "SHIFT", lambda shift: f"{shift:+,}", is_number=True),
    Column("committed", "COMMITTED", yes_or_no),
)
DELETED_COLUMNS = (Column("group", "GROUP"), Column("deleted", "DELETED", yes_or_no))
LAG_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("committed", "COMMITTED", human_count, is_number=True, nothing="no offset yet"),
    Column("end_offset", "END", human_count, is_number=True),
    Column("lag", "LAG", human_count, is_number=True),
    Column("lag_ms", "BEHIND", human_duration, is_number=True),
    Column("member_id", "MEMBER"),
    Column("client_id", "CLIENT"),
    Column("host", "HOST"),
)


@app.command(name="list")
def list_groups(
    *names: str,
    lag: bool = False,
    sort: Literal["name", "members", "lag", "behind"] = "name",
    options: WatchOptions = WATCH_DEFAULTS,
) -> int:
    """List groups with their type and state.

    For example:
      chronik group list
      chronik group list "billing-*" --lag
      chronik group list --sort lag --watch
      chronik group list --format json | jq -r '.[] | select(.state == "Empty") | .group'

    Parameters
    ----------
    names
        Only groups with these names; * and ? stand for other characters. Default: all.
    lag
        Show members and lag too, which asks for every group's offsets.
    sort
        Order: name (default), members, lag or behind, with the largest first. All but name show lag.
    """
    with_lag = lag or sort != "name"

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import groups

        rows: list[Row] = []
        with progress("asking every broker for its groups") as shown:
            for group in await groups.list_all(cluster):
                if names and not any(fnmatchcase(group.group_id, pattern) for pattern in names):
                    continue
                row = {
                    "group": group.group_id,
                    "type": group.group_type or None,
                    "state": group.state or None,
                    "protocol_type": group.protocol_type,
                    "coordinator": group.coordinator_id,
                }
                if with_lag:
                    shown.say(f"measuring the lag of {group.group_id}")
                    row |= await _measured(cluster, group.group_id)
                rows.append(row)
        if sort != "name":
            key = {"members": "members", "lag": "lag", "behind": "lag_ms"}[sort]
            rows.sort(key=lambda row: -1 if row[key] is None else row[key], reverse=True)
        columns = (*LISTED_COLUMNS, *MEASURED_COLUMNS) if with_lag else LISTED_COLUMNS
        empty = "No group has such a name." if names else "There are no groups."
        print_rows(rows, columns, as_json=options.wants_json, empty=empty)

    return show(options, work)


@app.command
def describe(*names: str, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """Show a group's offset and lag in each partition, and its members there.

    LAG counts records; BEHIND is the age of the oldest record that the group has not read. A partition without an
    offset has no lag yet: its reader decides whether to start at the earliest or the latest record. For a share group,
    START is the first record that it is not done with, and LAG leaves out records behind it that it is done with.

    For example:
      chronik group describe billing
      chronik group describe billing --format json | jq '.[0].lag'

    Parameters
    ----------
    names
        Names of the groups.
    """
    if not names:
        raise Misused("name at least one group: chronik group describe NAME")

    async def work(cluster: ClusterClient) -> None:
        with progress("measuring lag"):
            documents = [await _described(cluster, await existing_group(cluster, name)) for name in names]
        if options.wants_json:
            print_json(documents)
            return
        for index, document in enumerate(documents):
            behind = "" if document["lag_ms"] is None else f", {human_duration(document['lag_ms'])} behind"
            unread = document["partitions_without_offset"]
            missing = f", {counted(unread, 'partition')} without an offset" if unread else ""
            lag = f"lag {document['lag']:,}{behind}{missing}"
            print(
                f"{chr(10) if index else ''}{document['group']}  {document['state']}  {document['type']}  "
                f"assignor {document['assignor'] or '-'}  coordinator {document['coordinator']}  "
                f"members {len(document['members'])}  {lag}"
            )
            columns = SHARE_COLUMNS if document["type"] == SHARE else LAG_COLUMNS
            print_rows(document["partitions"], columns, as_json=False, empty="It has no offsets and no members.")

    return show(options, work)


@app.command
def explain(name: str, *, seconds: Annotated[int, Parameter(name="--for")] = 6, options: Options = DEFAULTS) -> int:
    """Say why a group is behind, and what to do about it.

    Looks at the group twice, and compares what was read, committed and written in between.

    For example:
      chronik group explain billing
      chronik group explain billing --for 30 --format json

    Parameters
    ----------
    name
        Name of the group.
    seconds
        Seconds between the two looks; default: 6, because most clients commit every 5 seconds.
    """
    if not 1 <= seconds <= EXPLAIN_SECONDS_MAX:
        raise Misused(f"--for {seconds}: use 1 to {EXPLAIN_SECONDS_MAX} seconds")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.doctor.lag_causes import causes
        from chronik.client.doctor.looking import look

        group = await existing_group(cluster, name)
        if group.group_type == SHARE:
            await _explain_share(cluster, group, seconds, options)
            return
        before = await look(cluster, name)
        if before.lag:
            with progress(f"watching {name} for {seconds} s"):
                await asyncio.sleep(seconds)
        after = await look(cluster, name) if before.lag else before
        found = causes(name, before, after)
        if options.wants_json:
            rows = [{"cause": each.name, "text": each.text, "action": each.action or None} for each in found]
            print_json({"group": name, "state": after.state, "lag": after.lag, "causes": rows})
            return
        behind = f"{counted(after.lag, 'record')} behind" if after.lag else "not behind"
        print(f"{name} is {behind}, with {counted(len(after.members), 'member')} in state {after.state}.")
        for each in found:
            print(f"{each.text}\n  {each.action}" if each.action else each.text)
        if after.lag and not found:
            print("It has lag, but nothing stands still: look again with a longer --for.")

    return run(options, work)


@app.command
def reset(
    name: str,
    *,
    to: str | None = None,
    shift: int | None = None,
    topic: Annotated[tuple[str, ...], Parameter(name=["--topic", "-t"])] = (),
    partition: Annotated[tuple[int, ...], Parameter(name=["--partition", "-p"])] = (),
    execute: bool = False,
    dry_run: bool = False,
    options: Options = DEFAULTS,
) -> int:
    """Move a group to other offsets. Shows the plan; --execute applies it.

    The group must have no members: stop its consumers first. An offset outside the log becomes its start or end.

    For example:
      chronik group reset billing --to earliest
      chronik group reset billing --to 2026-03-01T12:00:00+01:00 --execute
      chronik group reset billing --shift -100 --topic orders --partition 3 --execute
      chronik group reset new-group --to latest --topic orders --execute

    Parameters
    ----------
    name
        Name of the group; a new group needs --topic.
    to
        earliest, latest, an offset, a time with a time zone, or 2h ago.
    shift
        Move forward by N offsets, or back if N is negative.
    topic
        Only this topic; repeatable; default: all topics that the group has offsets for.
    partition
        Only this partition of each topic; repeatable.
    execute
        Commit the new offsets.
    dry_run
        Only show the plan (default).
    """
    if (to is None) == (shift is None):
        raise Misused("give either --to or --shift")
    if execute and dry_run:
        raise Misused("--execute and --dry-run exclude each other: choose one")
    place = None if to is None else parse_place(to, "--to", time.time_ns() // 1_000_000)

    async def work(cluster: ClusterClient) -> None:
        from chronik.cli.resetting import make_plan
        from chronik.client.admin import offsets, share_groups

        with progress("planning"):
            plan, is_share = await make_plan(cluster, name, to=place, shift=shift, topics=topic, only=partition)
        if execute and is_share:
            # Also where the start stays: records behind it that the group is done with are delivered again.
            await share_groups.move(cluster, name, {row.at: row.new_offset for row in plan})
        elif execute:
            moved = {row.at: offsets.Committed(row.new_offset, -1, "") for row in plan if row.moves}
            await offsets.commit(cluster, name, moved)
        rows = [row.as_row(executed=execute) for row in plan]
        print_rows(rows, RESET_COLUMNS, as_json=options.wants_json, empty="Nothing to move.")
        if not execute and not options.wants_json:
            print("Nothing was changed: add --execute to apply the plan.")

    return run(options, work)


@app.command
def delete(
    *names: str,
    dry_run: bool = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Delete groups and their offsets. A group with members is refused. Asks first on a terminal.

    For example:
      chronik group delete billing
      chronik group delete billing --dry-run

    Parameters
    ----------
    names
        Names of the groups.
    dry_run
        Delete nothing; show how many offsets would be deleted.
    yes
        Do not ask.
    """
    if not names:
        raise Misused("name at least one group: chronik group delete NAME")
    if dry_run:
        return run(options, lambda cluster: show_groups(cluster, names, options))
    if not yes:
        confirm(f"Delete {', '.join(names)} and all offsets?")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import groups
        from chronik.wire.error_codes import ErrorCode

        results = await groups.delete(cluster, names)
        exit_code = DONE
        deleted: list[Row] = []
        for name, fault in results.items():
            if fault is None:
                deleted.append({"group": name, "deleted": True})
                continue
            hint = await _nearest_group(cluster, name) if fault.kafka_error is ErrorCode.GROUP_ID_NOT_FOUND else ""
            complain(f"{fault}{hint}")
            exit_code = REFUSED
        if deleted:
            print_rows(deleted, DELETED_COLUMNS, as_json=options.wants_json)
        return exit_code

    return run(options, work)


async def existing_group(cluster: ClusterClient, name: str) -> Group:
    """The group, or a complaint with the nearest name."""
    from chronik.client.admin import groups
    from chronik.client.errors import Refused
    from chronik.wire.error_codes import ErrorCode

    try:
        return await groups.describe(cluster, name)
    except Refused as fault:
        if fault.kafka_error is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    raise CommandFailed(f"group {name!r} does not exist: GROUP_ID_NOT_FOUND{await _nearest_group(cluster, name)}")


async def _nearest_group(cluster: ClusterClient, name: str) -> str:
    from chronik.client.admin import groups

    return did_you_mean(name, [group.group_id for group in await groups.list_all(cluster)])


async def _measured(cluster: ClusterClient, name: str) -> dict[str, Any]:
    """Members and lag; nothing of a group that was deleted since it was listed."""
    from chronik.client.admin import groups
    from chronik.client.errors import Refused
    from chronik.wire.error_codes import ErrorCode

    try:
        document = await _described(cluster, await groups.describe(cluster, name))
    except Refused as fault:
        if fault.kafka_error is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {"members": None, "lag": None, "lag_ms": None}
    return {"members": len(document["members"]), "lag": document["lag"], "lag_ms": document["lag_ms"]}


async def _explain_share(cluster: ClusterClient, group: Group, seconds: int, options: Options) -> None:
    before = await look_at(cluster, group)
    if before.lag:
        with progress(f"watching {group.group_id} for {seconds} s"):
            await asyncio.sleep(seconds)
    after = await look_at(cluster, await existing_group(cluster, group.group_id)) if before.lag else before
    found = share_causes(before, after)
    if options.wants_json:
        rows = [{"cause": each.name, "text": each.text, "action": each.action or None} for each in found]
        print_json({"group": group.group_id, "state": after.group.state, "lag": after.lag, "causes": rows})
        return
    behind = f"{counted(after.lag, 'record')} behind" if after.lag else "not behind"
    members = counted(len(after.group.members), "member")
    print(f"{group.group_id} is {behind}, with {members} in state {after.group.state}.")
    for each in found:
        print(f"{each.text}\n  {each.action}" if each.action else each.text)


async def _described(cluster: ClusterClient, group: Group) -> dict[str, Any]:
    from chronik.client.admin import lag, offsets
    from chronik.client.topology import TopicPartition

    if group.group_type == SHARE:
        return await described_share(cluster, group)
    committed = await offsets.committed(cluster, group.group_id)
    readers = {at: member for member in group.members for at in member.partitions}
    topics = sorted({at.topic for at in committed.keys() | readers.keys()})
    topology = await cluster.retrying(lambda: cluster.refresh(topics))
    # All partitions of its topics: one that nobody reads, or that was skipped, is what the user looks for.
    existing = {
        TopicPartition(topic, index)
        for topic in topics
        if topic in topology.topics
        for index in topology.topics[topic].partitions
    }
    partitions: Sequence[TopicPartition] = sorted(committed.keys() | readers.keys() | existing)
    offset_of = {at: committed[at].offset if at in committed else None for at in partitions}
    lags = await lag.of(cluster, offset_of, starts_at_earliest=False)
    rows = []
    for at in partitions:
        reader = readers.get(at)
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "committed": lags[at].committed,
                "start_offset": lags[at].start_offset,
                "end_offset": lags[at].end_offset,
                "lag": lags[at].lag,
                "lag_ms": lags[at].lag_ms,
                "member_id": reader.member_id if reader else None,
                "client_id": reader.client_id if reader else None,
                "host": reader.host if reader else None,
            }
        )
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator_id,
        "lag": sum(row.lag or 0 for row in lags.values()),
        "partitions_without_offset": sum(offset is None for offset in offset_of.values()),
        "lag_ms": max((row.lag_ms for row in lags.values() if row.lag_ms is not None), default=None),
        "members": [
            {"member_id": each.member_id, "instance_id": each.instance_id, "client_id": each.client_id}
            | {"host": each.host, "partitions": len(each.partitions)}
            for each in group.members
        ],
        "partitions": rows,
    }
