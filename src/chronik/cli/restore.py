"""`chronik restore`: a backup into a cluster, record by record at its offset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chronik.cli.backup import Topics, counts, require_known, wanted
from chronik.cli.bars import Count, bar
from chronik.cli.errors import CommandFailed
from chronik.cli.output import Column, Row, human_bytes, human_count, print_json, print_rows, yes_or_no
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, run, watched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronik.backup.manifest import Manifest
    from chronik.backup.restoring import TopicPlan
    from chronik.client.routing import ClusterClient

COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partitions", "PARTITIONS", is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
    Column("bytes", "SIZE", human_bytes, is_number=True),
    Column("gap_offsets", "GAPS", human_count, is_number=True),
    Column("present", "PRESENT", yes_or_no),
)


def restore(
    directory: Path,
    /,
    *,
    topics: Topics = (),
    replication_factor: int | None = None,
    gaps_max: int = 10_000_000,
    resume: bool = False,
    dry_run: bool = False,
    options: Options = DEFAULTS,
) -> int:
    """Restore a backup into a cluster that does not have its topics.

    Records get the same offsets, timestamps, keys, values and headers, partitions the same first and last offset, and
    groups the same committed offsets. Offsets without a record are filled with transaction markers, which no consumer
    sees. The whole backup is checked before anything is created.

    For example:
      chronik restore /backup/prod --dry-run
      chronik restore /backup/prod --bootstrap new-cluster:9092
      chronik restore /backup/prod --topics orders

    Parameters
    ----------
    directory
        Directory of a backup.
    topics
        Names or patterns of topics; default: all of the backup.
    replication_factor
        Replicas of each partition; default: as in the backup.
    gaps_max
        Most offsets without a record per topic; each needs about 80 bytes; default: 10,000,000.
    resume
        Go on with a restore that was interrupted: complete topics stay, unfinished ones begin again.
    dry_run
        Check the backup and the cluster, and show what would be restored.
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.backup.errors import BackupError
        from chronik.backup.files import read_manifest
        from chronik.backup.restoring import Progress, checked, planned
        from chronik.backup.restoring import restore as restored

        done = Progress()
        try:
            whole = read_manifest(directory)
            names = [topic.name for topic in whole.topics]
            require_known(topics, names, str(directory))
            manifest = whole.only([name for name in names if wanted(topics)(name)])
            async with bar("checking", lambda: Count(done.bytes_done, done.bytes_total)):
                plans = await checked(directory, manifest, done)
            planning = planned(
                cluster, plans, replication_factor=replication_factor, resume=resume, skipped_max=gaps_max
            )
            plans = await watched(cluster, planning)
            if dry_run:
                _print(manifest, plans, "would be restored", options)
                return DONE
            async with bar("restoring", lambda: Count(done.offsets_done, done.offsets_total)):
                result = await restored(
                    cluster, directory, manifest, plans, done, replication_factor=replication_factor
                )
        except BackupError as error:
            raise CommandFailed(str(error)) from error
        _print(manifest, plans, "restored", options, refused=result.refused, moved=result.moved_groups)
        return REFUSED if result.refused else DONE

    return run(options, work, is_patient=True)


def _print(
    manifest: Manifest,
    plans: Sequence[TopicPlan],
    what: str,
    options: Options,
    *,
    refused: Sequence[str] = (),
    moved: Sequence[str] = (),
) -> None:
    rows: list[Row] = [
        {
            "topic": plan.topic.name,
            "partitions": len(plan.topic.partitions),
            "records": plan.topic.record_count,
            "bytes": plan.topic.size_bytes,
            "gap_offsets": plan.skipped_offsets,
            "present": plan.exists,
        }
        for plan in plans
    ]
    if options.wants_json:
        print_json(
            {
                "topics": rows,
                "groups": len(manifest.groups),
                "acls": len(manifest.acls),
                "quotas": len(manifest.quotas),
                "refused": list(refused),
                "moved_groups": list(moved),
                "left_out": list(manifest.left_out),
            }
        )
        return
    print_rows(rows, COLUMNS, as_json=False, empty="The backup holds no topics.")
    print(f"{counts(manifest)} {what}")
    for each in moved:
        print(f"Group offset moved to the end of the backup: {each}")
    for each in refused:
        print(f"Not restored: {each}")
    for each in manifest.left_out:
        print(f"Not in the backup: {each}")
