"""`chronik storage`: data directories of nodes that do not run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.output import Column, Row, human_bytes, human_count, print_rows
from chronik.cli.session import DONE, progress

if TYPE_CHECKING:
    from chronik.storage.repair import Rebuilt

app = App(
    name="storage",
    help="""\
Repair the data directory of a node that is not running.

For example:
  chronik storage repair /var/lib/chronik/data""",
)

COLUMNS = (
    Column("partition", "PARTITION"),
    Column("start_offset", "START", human_count, is_number=True),
    Column("end_offset", "END", human_count, is_number=True),
    Column("from_journal_bytes", "FROM JOURNAL", human_bytes, is_number=True),
    Column("cut_bytes", "CUT", human_bytes, is_number=True),
    Column("damaged_batches", "DAMAGED", human_count, is_number=True),
)


@app.command
def repair(
    directory: Path,
    /,
    *,
    force: bool = False,
    output: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table",
) -> int:
    """Rebuild a data directory that lost its journal, checkpoint or manifest.

    Each partition keeps what its segments hold, up to the last whole batch. The directory then gets a new id, so the
    cluster counts on none of its replicas until they have caught up with others. A partition that has no other replica
    continues with what was found here.

    Stop the node first. No record is deleted: bytes behind the last whole batch are moved to BASE.log.cut. A directory
    that has all its files is left as it is.

    For example:
      chronik storage repair /var/lib/chronik/data

    Parameters
    ----------
    directory
        The node's log.dirs.
    force
        Rebuild a directory that has all its files, too.
    output
        table or json; default: table.
    """
    from chronik.broker.errors import CannotStart
    from chronik.broker.identity import renew_directory_id
    from chronik.runtime.errors import RuntimeFault
    from chronik.runtime.real import real_runtime
    from chronik.storage.repair import is_whole
    from chronik.storage.repair import repair as rebuild

    if not directory.is_dir():
        raise Misused(f"{directory} is not a directory: name the node's log.dirs")
    if not (directory / "meta.properties").exists() and not (directory / "journal").exists():
        raise Misused(f"{directory} is not the data directory of a node: it has neither meta.properties nor journal")
    runtime = real_runtime()
    if not force and is_whole(runtime.disk, str(directory)):
        print(
            f"{directory} has all its files. Nothing was changed; start the node. Use --force to rebuild it anyway.",
            file=sys.stderr,
        )
        return DONE
    rows: list[Row] = []
    with progress(f"rebuilding {directory}"):
        try:
            rebuild(runtime.disk, str(directory), lambda rebuilt: rows.append(_row(rebuilt)))
            renew_directory_id(runtime, str(directory))
        except (RuntimeFault, CannotStart, OSError) as error:
            raise CommandFailed(f"{directory} was not repaired: {error}") from error
    print_rows(rows, COLUMNS, as_json=output == "json", empty="No partitions found: nothing to rebuild.")
    print(f"{directory} is repaired. Start the node; it copies what is missing from other nodes.", file=sys.stderr)
    return DONE


def _row(rebuilt: Rebuilt) -> Row:
    return {
        "partition": f"{rebuilt.name.topic}-{rebuilt.name.partition}",
        "start_offset": rebuilt.start_offset,
        "end_offset": rebuilt.end_offset,
        "from_journal_bytes": rebuilt.from_journal_bytes,
        "cut_bytes": rebuilt.cut_bytes,
        "damaged_batches": rebuilt.damaged_count,
    }
