"""`chronik topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.deleting import show_topics
from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.moments import with_durations
from chronik.cli.naming import did_you_mean, existing_topic, nearest_topic_config, parse_settings
from chronik.cli.output import (
    Column,
    Row,
    human_bytes,
    human_count,
    id_list,
    print_json,
    print_rows,
    yes_or_no,
)
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, complain, confirm, progress, run
from chronik.cli.topic_partitions import change_replication_factor, delete_records, elect
from chronik.cli.topic_rows import Wanted, in_order, retention_text
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show
from chronik.runtime.wording import counted
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from chronik.client.errors import Refused
    from chronik.client.routing import ClusterClient

app = App(
    name="topic",
    help="""\
Create, list, describe, alter and delete topics.

For example:
  chronik topic create orders --partitions 6 --config retention.ms=1d
  chronik topic list
  chronik topic describe orders
  chronik topic alter orders --partitions 12
  chronik topic delete-records orders --before "7d ago"
  chronik topic elect orders
  chronik topic delete orders""",
)
app.command(delete_records)
app.command(elect)

CREATED_COLUMNS = (
    Column("name", "TOPIC"),
    Column("partitions", "PARTITIONS", human_count, is_number=True),
    Column("replication_factor", "REPLICAS", is_number=True),
    Column("created", "CREATED", yes_or_no),
)
LISTED_COLUMNS = (
    Column("name", "TOPIC"),
    Column("partitions", "PARTITIONS", human_count, is_number=True),
    Column("replication_factor", "REPLICAS", is_number=True),
    Column("under_replicated", "UNDER-REPLICATED", human_count, is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
    Column("records_per_s", "PER SECOND", lambda rate: f"{rate:,.1f}", is_number=True),
    Column("size_bytes", "SIZE", human_bytes, is_number=True),
    Column("retention_ms", "RETENTION", retention_text, is_number=True),
)
SHOWN_ALWAYS = ("name", "partitions", "replication_factor", "under_replicated")
DELETED_COLUMNS = (Column("name", "TOPIC"), Column("deleted", "DELETED", yes_or_no))
PARTITION_COLUMNS = (
    Column("partition", "PARTITION", is_number=True),
    Column("leader", "LEADER", is_number=True),
    Column("leader_epoch", "EPOCH", is_number=True),
    Column("replicas", "REPLICAS", id_list),
    Column("isr", "ISR", id_list),
    Column("start_offset", "START", human_count, is_number=True),
    Column("end_offset", "END", human_count, is_number=True),
    Column("size_bytes", "SIZE", human_bytes, is_number=True),
)


@app.command
def create(
    *names: str,
    partitions: Annotated[int, Parameter(name=["--partitions", "-p"])] = -1,
    replication_factor: Annotated[int, Parameter(name=["--replication-factor", "-r"])] = -1,
    config: Annotated[tuple[str, ...], Parameter(name=["--config", "-c"])] = (),
    if_not_exists: bool = False,
    validate_only: bool = False,
    options: Options = DEFAULTS,
) -> int:
    """Create topics.

    A topic that is refused does not stop the others.

    For example:
      chronik topic create orders
      chronik topic create orders payments --partitions 6 --replication-factor 3
      chronik topic create state --config cleanup.policy=compact

    Parameters
    ----------
    names
        Names of the topics.
    partitions
        Number of partitions; default: the broker's num.partitions.
    replication_factor
        Replicas of each partition; default: the broker's default.replication.factor.
    config
        Setting as key=value; repeatable. A time in ms may have a unit: retention.ms=7d.
    if_not_exists
        Succeed if the topic already exists.
    validate_only
        Check only; create nothing.
    """
    if not names:
        raise Misused("name at least one topic: chronik topic create NAME")
    settings = with_durations(parse_settings(config, "--config"))

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import topics
        from chronik.client.errors import Refused
        from chronik.wire.error_codes import ErrorCode

        wanted = [topics.NewTopic(name, partitions, replication_factor, settings) for name in names]
        with progress(f"creating {counted(len(wanted), 'topic')}"):
            results = await topics.create(cluster, wanted, validate_only=validate_only)
        rows: list[Row] = []
        faults: list[Refused] = []
        for name, result in results.items():
            if not isinstance(result, Refused):
                rows.append(
                    {
                        "name": name,
                        "topic_id": uuid_text(result.topic_id),
                        "partitions": result.partition_count,
                        "replication_factor": result.replication_factor,
                        "created": not validate_only,
                    }
                )
            elif if_not_exists and result.kafka_error is ErrorCode.TOPIC_ALREADY_EXISTS:
                rows.append({"name": name, "created": False})
            else:
                faults.append(result)
        for fault in faults:
            complain(f"{fault}{nearest_topic_config(fault, settings)}")
        if rows:
            print_rows(rows, CREATED_COLUMNS, as_json=options.wants_json)
        return REFUSED if faults else DONE

    return run(options, work)


@app.command(name="list")
def list_topics(
    *names: str,
    internal: bool = False,
    details: bool = False,
    sizes: bool = False,
    sort: Literal["name", "partitions", "records", "rate", "size", "retention"] = "name",
    options: WatchOptions = WATCH_DEFAULTS,
) -> int:
    """List topics.

    Offsets count records that compaction has removed, and records that mark the ends of transactions. With --watch and
    --details the table also shows how many records are written per second.

    For example:
      chronik topic list
      chronik topic list "orders*" --details
      chronik topic list --sort size
      chronik topic list --details --watch 5
      chronik topic list --format json | jq -r '.[].name'

    Parameters
    ----------
    names
        Only topics with these names; * and ? stand for other characters. Default: all.
    internal
        Include internal topics, such as __consumer_offsets.
    details
        Show records, size and retention too. This asks every broker.
    sizes
        Show the size on disk over all brokers, replicas included.
    sort
        Order: name (default), partitions, records, rate, size or retention, with the largest first.
    """
    needs_details = sort in ("records", "rate", "retention")
    if sort == "rate" and options.watch is None:
        raise Misused("--sort rate needs --watch: a rate is what changes from one round to the next")
    wanted = Wanted(
        names=names,
        internal=internal,
        details=details or needs_details,
        sizes=sizes or details or needs_details or sort == "size",
    )
    previous: list[tuple[int, dict[str, int]]] = []  # when the last round looked, in ns, and the end of each topic

    async def work(cluster: ClusterClient) -> None:
        from chronik.cli.topic_rows import listed, with_rates

        with progress("asking for topics"):
            rows = await listed(cluster, wanted)
        if wanted.details and options.watch is not None:
            rows = with_rates(rows, previous, cluster.clock.monotonic_ns())
        empty = "No topic has such a name." if names else "There are no topics yet: chronik topic create NAME"
        shown = [each for each in LISTED_COLUMNS if each.key in SHOWN_ALWAYS or any(each.key in row for row in rows)]
        print_rows(in_order(rows, sort), shown, as_json=options.wants_json, empty=empty)

    return show(options, work)


@app.command
def describe(*names: str, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """Show a topic's partitions, offsets, sizes and own settings.

    For example:
      chronik topic describe orders
      chronik topic describe orders --format json | jq '.[0].partitions[].end_offset'

    Parameters
    ----------
    names
        Names of the topics.
    """
    if not names:
        raise Misused("name at least one topic: chronik topic describe NAME")

    async def work(cluster: ClusterClient) -> None:
        from chronik.cli.topic_rows import described

        with progress("asking for topics"):
            documents = [await described(cluster, await existing_topic(cluster, name)) for name in names]
        if options.wants_json:
            print_json(documents)
            return
        for index, document in enumerate(documents):
            settings = ", ".join(f"{key}={value}" for key, value in document["configs"].items())
            print(f"{chr(10) if index else ''}{document['name']}  id {document['topic_id']}")
            print(f"settings: {settings or 'none of its own'}")
            print_rows(document["partitions"], PARTITION_COLUMNS, as_json=False)

    return show(options, work)


@app.command
def alter(
    name: str,
    *,
    partitions: Annotated[int | None, Parameter(name=["--partitions", "-p"])] = None,
    replication_factor: Annotated[int | None, Parameter(name=["--replication-factor", "-r"])] = None,
    config: Annotated[tuple[str, ...], Parameter(name=["--config", "-c"])] = (),
    unset: tuple[str, ...] = (),
    options: Options = DEFAULTS,
) -> int:
    """Add partitions to a topic, change the number of its replicas, or change its settings.

    Adding partitions changes which partition a key belongs to: older records of a key stay where they are. A change of
    --replication-factor waits until the new replicas are in sync. Ctrl-C stops waiting, not the change.

    For example:
      chronik topic alter orders --partitions 12
      chronik topic alter orders --replication-factor 3
      chronik topic alter orders --config retention.ms=3600000 --unset max.message.bytes

    Parameters
    ----------
    name
        Name of the topic.
    partitions
        New total number of partitions; cannot be reduced.
    replication_factor
        New number of replicas of each partition.
    config
        Setting as key=value; repeatable. A time in ms may have a unit: retention.ms=7d.
    unset
        Setting to remove, so that the broker's value applies; repeatable.
    """
    settings = with_durations(parse_settings(config, "--config"))
    if partitions is None and replication_factor is None and not settings and not unset:
        raise Misused("nothing to change: give --partitions, --replication-factor, --config or --unset")
    if replication_factor is not None and replication_factor < 1:
        raise Misused(f"--replication-factor {replication_factor}: use 1 or more")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import configs, topics
        from chronik.client.errors import Refused

        await existing_topic(cluster, name)
        if settings or unset:
            resource = configs.ConfigResource(configs.ResourceKind.TOPIC, name)
            try:
                await configs.alter(cluster, resource, set_to=settings, unset=unset)
            except Refused as fault:
                raise CommandFailed(f"{fault}{nearest_topic_config(fault, (*settings, *unset))}") from fault
        if partitions is not None:
            with progress(f"adding partitions to {name}"):
                await topics.grow(cluster, name, partitions)
        if replication_factor is not None:
            await change_replication_factor(cluster, name, replication_factor)
        document = {
            "name": name,
            "partitions": partitions,
            "replication_factor": replication_factor,
            "set": settings,
            "unset": list(unset),
        }
        if options.wants_json:
            print_json(document)
        else:
            print(f"altered {name}")

    return run(options, work)


@app.command
def delete(
    *names: str,
    if_exists: bool = False,
    dry_run: bool = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Delete topics and all their records. This cannot be undone. Asks first on a terminal.

    For example:
      chronik topic delete orders
      chronik topic delete orders payments --if-exists
      chronik topic delete orders --dry-run

    Parameters
    ----------
    names
        Names of the topics.
    if_exists
        Succeed if the topic does not exist.
    dry_run
        Delete nothing; show how many records would be deleted.
    yes
        Do not ask.
    """
    if not names:
        raise Misused("name at least one topic: chronik topic delete NAME")
    if dry_run:
        return run(options, lambda cluster: show_topics(cluster, names, options, if_exists=if_exists))
    if not yes:
        confirm(f"Delete {', '.join(names)} and all records?")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import topics
        from chronik.wire.error_codes import ErrorCode

        with progress(f"deleting {counted(len(names), 'topic')}"):
            results = await topics.delete(cluster, names)
        exit_code = DONE
        rows: list[Row] = []
        for name, fault in results.items():
            if fault is None:
                rows.append({"name": name, "deleted": True})
            elif if_exists and fault.kafka_error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                rows.append({"name": name, "deleted": False})
            else:
                known = (await cluster.refresh(None)).topics
                complain(f"{fault}{did_you_mean(name, known)}")
                exit_code = REFUSED
        if rows:
            print_rows(rows, DELETED_COLUMNS, as_json=options.wants_json)
        return exit_code

    return run(options, work)
