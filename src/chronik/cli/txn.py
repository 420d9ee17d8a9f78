"""`chronik txn`: list, describe, explain and end transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from chronik.cli.errors import Misused
from chronik.cli.moments import parse_duration
from chronik.cli.naming import existing_topic
from chronik.cli.output import Column, Row, human_count, human_duration, print_json, print_rows
from chronik.cli.session import DEFAULTS, Options, confirm, progress, run
from chronik.cli.transactions import (
    abort_hanging,
    document_of,
    existing_partition,
    existing_transaction,
    explained,
    explained_partition,
    owners_of,
)
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

app = App(
    name="txn",
    help="""\
List, describe, explain and end transactions.

For example:
  chronik txn list --state Ongoing
  chronik txn explain billing-1
  chronik txn find-hanging
  chronik txn abort billing-1""",
)

# transaction.max.timeout.ms is 15 minutes unless it is configured: what is older than that should have ended.
HANGING_AFTER = "15m"

LISTED_COLUMNS = (
    Column("transactional_id", "TRANSACTIONAL ID"),
    Column("state", "STATE"),
    Column("producer_id", "PRODUCER", is_number=True),
    Column("coordinator", "COORDINATOR", is_number=True),
)
PARTITION_COLUMNS = (Column("topic", "TOPIC"), Column("partition", "PARTITION", is_number=True))
ENDED_COLUMNS = (Column("transactional_id", "TRANSACTIONAL ID"), Column("outcome", "OUTCOME"))
ABORTED_COLUMNS = (
    *PARTITION_COLUMNS,
    Column("start_offset", "START", human_count, is_number=True),
    Column("outcome", "OUTCOME"),
)
HANGING_COLUMNS = (
    *PARTITION_COLUMNS,
    Column("start_offset", "START", human_count, is_number=True),
    Column("producer_id", "PRODUCER", is_number=True),
    Column("producer_epoch", "EPOCH", is_number=True),
    Column("age_ms", "LAST RECORD", human_duration, is_number=True),
)

ProducerId = Annotated[int | None, Parameter(name="--producer-id")]
Epoch = Annotated[int | None, Parameter(name="--epoch")]
Topic = Annotated[str | None, Parameter(name=["--topic", "-t"])]
Partition = Annotated[int | None, Parameter(name=["--partition", "-p"])]


@app.command(name="list")
def list_transactions(
    *,
    state: tuple[str, ...] = (),
    producer_id: tuple[int, ...] = (),
    longer_than: str | None = None,
    match: str | None = None,
    options: WatchOptions = WATCH_DEFAULTS,
) -> int:
    """List transactional ids with their state.

    For example:
      chronik txn list
      chronik txn list --state Ongoing --longer-than 5m
      chronik txn list --match "billing-.*" --format json

    Parameters
    ----------
    state
        Only in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort; repeatable.
    producer_id
        Only of this producer; repeatable.
    longer_than
        Only with a transaction that began longer ago, such as 5m.
    match
        Only ids that this regular expression matches as a whole.
    """
    longer_ms = None if longer_than is None else parse_duration(longer_than, "--longer-than")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import transactions

        with progress("asking every broker for its transactions"):
            found = await transactions.list_all(
                cluster, states=state, producer_ids=producer_id, longer_than_ms=longer_ms, pattern=match
            )
        rows = [
            {
                "transactional_id": each.transactional_id,
                "state": each.state,
                "producer_id": each.producer_id,
                "coordinator": each.coordinator_id,
            }
            for each in found
        ]
        print_rows(rows, LISTED_COLUMNS, as_json=options.wants_json, empty="There are no such transactional ids.")

    return show(options, work)


@app.command
def describe(*ids: str, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """Show the state, producer, times and partitions of transactional ids.

    Of a transaction that is decided, the partitions are those that still wait for its marker.

    For example:
      chronik txn describe billing-1

    Parameters
    ----------
    ids
        Transactional ids.
    """
    if not ids:
        raise Misused("name at least one transactional id: chronik txn describe ID")

    async def work(cluster: ClusterClient) -> None:
        now_ms = time.time_ns() // 1_000_000
        documents = [document_of(await existing_transaction(cluster, each), now_ms) for each in ids]
        if options.wants_json:
            print_json(documents)
            return
        for index, document in enumerate(documents):
            age = document["age_ms"]
            since = "" if age is None else f"  open since {document['started']}, for {human_duration(age)}"
            print(
                f"{chr(10) if index else ''}{document['transactional_id']}  {document['state']}  "
                f"producer {document['producer_id']} epoch {document['producer_epoch']}  "
                f"coordinator {document['coordinator']}  timeout {human_duration(document['timeout_ms'])}{since}"
            )
            print_rows(document["partitions"], PARTITION_COLUMNS, as_json=False, empty="It has no open partitions.")

    return show(options, work)


@app.command
def explain(
    transactional_id: str | None = None,
    /,
    *,
    topic: Topic = None,
    partition: Partition = None,
    options: Options = DEFAULTS,
) -> int:
    """Say what a transaction waits for and what ends it; or which transactions hold up a partition.

    For example:
      chronik txn explain billing-1
      chronik txn explain --topic orders --partition 0

    Parameters
    ----------
    transactional_id
        The transactional id.
    topic
        Explain a partition of this topic instead.
    partition
        The partition.
    """
    if (topic is None) != (partition is None) or (transactional_id is None) == (topic is None):
        raise Misused("give either a transactional id, or --topic and --partition")

    async def work(cluster: ClusterClient) -> None:
        now_ms = time.time_ns() // 1_000_000
        with progress("asking the coordinator and the leaders"):
            if transactional_id is not None:
                transaction = await existing_transaction(cluster, transactional_id)
                document = document_of(transaction, now_ms)
                document["explanation"] = await explained(cluster, transaction, now_ms)
            else:
                assert topic is not None
                assert partition is not None
                document = {"topic": topic, "partition": partition}
                at = await existing_partition(cluster, topic, partition)
                document["explanation"] = await explained_partition(cluster, at, now_ms)
        if options.wants_json:
            print_json(document)
        else:
            print("\n".join(document["explanation"]))

    return run(options, work)


@app.command(name="find-hanging")
def find_hanging(
    *,
    topic: Annotated[tuple[str, ...], Parameter(name=["--topic", "-t"])] = (),
    longer_than: str = HANGING_AFTER,
    options: WatchOptions = WATCH_DEFAULTS,
) -> int:
    """Find transactions that are open on partitions and that no coordinator knows.

    Until such a transaction ends, readers of committed records wait. Chronik ends it by itself within minutes, Kafka
    never does; `chronik txn abort` with its partition ends it at once.

    For example:
      chronik txn find-hanging
      chronik txn find-hanging --topic orders --longer-than 1h --format json

    Parameters
    ----------
    topic
        Only in this topic; repeatable; default: all topics, internal ones too.
    longer_than
        Only those whose last record is older; default: 15m, the longest timeout that brokers allow by default.
    """
    longer_ms = parse_duration(longer_than, "--longer-than")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import transactions
        from chronik.client.topology import TopicPartition

        now_ms = time.time_ns() // 1_000_000
        with progress("asking every leader for its producers"):
            for name in topic:
                await existing_topic(cluster, name)
            topology = await cluster.retrying(lambda: cluster.refresh(topic or None))
            places = [
                TopicPartition(name, index)
                for name, known in topology.topics.items()
                if not topic or name in topic
                for index in known.partitions
            ]
            found = await transactions.open_on(cluster, places)
            old = [
                each
                for answer in found.values()
                if isinstance(answer, list)
                for each in answer
                if now_ms - each.last_ms > longer_ms
            ]
            owners = await owners_of(cluster, old)
        rows = [
            {
                "topic": each.at.topic,
                "partition": each.at.partition,
                "start_offset": each.start_offset,
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "age_ms": now_ms - each.last_ms,
            }
            for each in sorted(old, key=lambda each: (each.at, each.start_offset))
            if (owner := owners.get(each.producer_id)) is None or each.at not in owner.partitions
        ]
        print_rows(rows, HANGING_COLUMNS, as_json=options.wants_json, empty="No transaction is hanging.")

    return show(options, work)


@app.command
def abort(
    transactional_id: str | None = None,
    /,
    *,
    producer_id: ProducerId = None,
    epoch: Epoch = None,
    topic: Topic = None,
    partition: Partition = None,
    start_offset: int | None = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Abort a transaction; its records are never seen by readers of committed records. Asks first on a terminal.

    With only an id, whatever is open is aborted and its producer is fenced. With --producer-id and --epoch, only the
    transaction of that producer and epoch. A hanging transaction is named by its partition and first offset.

    For example:
      chronik txn abort billing-1
      chronik txn abort billing-1 --producer-id 4001 --epoch 7
      chronik txn abort --topic orders --partition 0 --start-offset 1500

    Parameters
    ----------
    transactional_id
        The transactional id.
    producer_id
        The producer id that was stored with the transaction; needs --epoch.
    epoch
        The producer epoch that was stored with the transaction.
    topic
        Topic of a hanging transaction.
    partition
        Partition of a hanging transaction.
    start_offset
        First offset of a hanging transaction, as find-hanging shows it.
    yes
        Do not ask.
    """
    place = (topic, partition, start_offset)
    if (producer_id is None) != (epoch is None):
        raise Misused("--producer-id and --epoch need each other")
    if transactional_id is None and None in place:
        raise Misused("give a transactional id, or --topic, --partition and --start-offset of a hanging transaction")
    if transactional_id is not None and place != (None, None, None):
        raise Misused("a transactional id excludes --topic, --partition and --start-offset")
    if transactional_id is None and producer_id is not None:
        raise Misused("--producer-id needs a transactional id")
    if not yes:
        what = f"{transactional_id!r}" if transactional_id is not None else f"{topic}-{partition}@{start_offset}"
        confirm(f"Abort the transaction of {what}?")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import transactions

        if transactional_id is None:
            assert topic is not None
            assert partition is not None
            assert start_offset is not None
            await abort_hanging(cluster, await existing_partition(cluster, topic, partition), start_offset)
            row: Row = {"topic": topic, "partition": partition, "start_offset": start_offset, "outcome": "aborted"}
            print_rows([row], ABORTED_COLUMNS, as_json=options.wants_json)
            return
        if producer_id is None or epoch is None:
            await existing_transaction(cluster, transactional_id)  # to take over an unknown id would create it
            await transactions.fence(cluster, transactional_id)
        else:
            await transactions.end(cluster, transactional_id, producer_id, epoch, commits=False)
        _print_outcome(transactional_id, "aborted", options)

    return run(options, work)


@app.command
def commit(
    transactional_id: str,
    /,
    *,
    producer_id: int,
    epoch: int,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    options: Options = DEFAULTS,
) -> int:
    """Commit a transaction in its producer's name. Asks first on a terminal.

    For producers that stored their producer id and epoch before they were lost, as Flink's sink does: their records
    are complete, and only the commit is missing. Repeating it changes nothing.

    For example:
      chronik txn commit billing-1 --producer-id 4001 --epoch 7

    Parameters
    ----------
    transactional_id
        The transactional id.
    producer_id
        The producer id that was stored with the transaction.
    epoch
        The producer epoch that was stored with the transaction.
    yes
        Do not ask.
    """
    if not yes:
        confirm(f"Commit the transaction of {transactional_id!r}?")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import transactions

        await transactions.end(cluster, transactional_id, producer_id, epoch, commits=True)
        _print_outcome(transactional_id, "committed", options)

    return run(options, work)


def _print_outcome(transactional_id: str, outcome: str, options: Options) -> None:
    print_rows([{"transactional_id": transactional_id, "outcome": outcome}], ENDED_COLUMNS, as_json=options.wants_json)
