"""`chronik backup`: topics of a running cluster as files, and a check of such files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.bars import Count, bar
from chronik.cli.errors import CommandFailed
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, Row, human_bytes, human_count, print_json, print_rows
from chronik.cli.session import DEFAULTS, DONE, Options, run, run_loop, watched
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.backup.manifest import Manifest, TopicBackup
    from chronik.client.routing import ClusterClient

app = App(name="backup")

Topics = Annotated[tuple[str, ...], Parameter(name="--topics", consume_multiple=True, negative="")]
COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partitions", "PARTITIONS", is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
    Column("bytes", "SIZE", human_bytes, is_number=True),
    Column("new_bytes", "NEW", human_bytes, is_number=True),
)


@app.default
def backup(directory: Path, /, *, topics: Topics = (), options: Options = DEFAULTS) -> int:
    """Back up topics of a running cluster into a directory.

    For each partition, the backup holds what a consumer of committed records reads up to the moment of the backup:
    records with offsets, timestamps, headers and compression. It also holds configurations of topics, committed
    offsets of groups, ACLs and quotas. It holds no passwords. Works with Kafka 3.0 or later, too.

    The same command again adds what is new. If it is interrupted, the backup before stays as it was.

    For example:
      chronik backup /backup/prod
      chronik backup /backup/orders --topics orders 'orders-*'
      chronik backup verify /backup/prod

    Parameters
    ----------
    directory
        Directory of the backup: empty, not there yet, or an earlier backup of this cluster.
    topics
        Names or patterns of topics; default: all but internal ones.
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.backup.errors import BackupError
        from chronik.backup.taking import Progress, take

        done = Progress()

        def count() -> Count:
            return Count(done.offsets_done, done.offsets_total, human_bytes(done.bytes_done))

        try:
            # Once begun, a backup outlives elections; without a quorum it does not begin.
            known = (await watched(cluster, cluster.retrying(lambda: cluster.refresh(None)))).topics
            require_known(topics, known, "the cluster")
            async with bar("copying", count):
                manifest, before = await take(cluster, directory, wanted(topics), now_text(), done)
        except BackupError as error:
            raise CommandFailed(str(error)) from error
        except OSError as error:
            raise CommandFailed(f"cannot write to {error.filename or directory}: {error.strerror}") from error
        except BaseExceptionGroup as group:
            raise _first(group) from group
        rows = [_row(topic, None if before is None else before.topic(topic.name)) for topic in manifest.topics]
        if options.wants_json:
            print_json({"directory": str(directory), **summary(manifest), "topics": rows})
            return DONE
        print_rows(rows, COLUMNS, as_json=False, empty="No topics: there is nothing to back up.")
        print(counts(manifest))
        for each in manifest.left_out:
            print(f"Left out: {each}")
        return DONE

    return run(options, work, is_patient=True)


@app.command
def verify(
    directory: Path, /, *, output: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table"
) -> int:
    """Read a whole backup and compare it with its checksums. No cluster is asked.

    Exits with 1 and names the file if one is damaged or missing.

    Parameters
    ----------
    directory
        Directory of the backup.
    output
        table or json; default: table.
    """
    from chronik.backup.errors import BackupError
    from chronik.backup.files import read_manifest
    from chronik.backup.restoring import Progress, checked

    async def work() -> int:
        done = Progress()
        try:
            manifest = read_manifest(directory)
            async with bar("checking", lambda: Count(done.bytes_done, done.bytes_total)):
                await checked(directory, manifest, done)
        except BackupError as error:
            raise CommandFailed(str(error)) from error
        rows = [_row(topic, topic) for topic in manifest.topics]
        if output == "json":
            print_json({"directory": str(directory), "intact": True, **summary(manifest), "topics": rows})
            return DONE
        print_rows(rows, COLUMNS[:-1], as_json=False, empty="The backup holds no topics.")
        print(f"{directory} is intact: {human_bytes(manifest.size_bytes)}, taken {manifest.taken_at}")
        return DONE

    return run_loop(work())


def wanted(patterns: Sequence[str]) -> Callable[[str], bool]:
    return lambda name: not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def require_known(patterns: Sequence[str], names: Iterable[str], where: str) -> None:
    """Raises CommandFailed for a pattern that fits no topic."""
    known = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise CommandFailed(f"{where} has no topic {pattern!r}{did_you_mean(pattern, known)}")


def now_text() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def counts(manifest: Manifest) -> str:
    groups, rules, quotas = len(manifest.groups), len(manifest.acls), len(manifest.quotas)
    return f"{counted(groups, 'group')}, {counted(rules, 'ACL')}, {counted(quotas, 'quota')}"


def summary(manifest: Manifest) -> Row:
    return {
        "cluster_id": manifest.cluster_id,
        "taken_at": manifest.taken_at,
        "bytes": manifest.size_bytes,
        "groups": len(manifest.groups),
        "acls": len(manifest.acls),
        "quotas": len(manifest.quotas),
        "left_out": list(manifest.left_out),
    }


def _row(topic: TopicBackup, before: TopicBackup | None) -> Row:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "records": topic.record_count,
        "bytes": topic.size_bytes,
        "new_bytes": topic.size_bytes - (0 if before is None else before.size_bytes),
    }


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of the first partition that failed; the others were cancelled."""
    from chronik.backup.errors import BackupError

    error = group.exceptions[0]
    return CommandFailed(str(error)) if isinstance(error, BackupError) else error
