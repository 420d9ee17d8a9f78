"""`chronik storage`: data directories of nodes that do not run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.naming import parse_settings
from chronik.cli.output import Column, Row, human_bytes, human_count, print_rows
from chronik.cli.passwords import PasswordFile, read_password
from chronik.cli.session import DONE, progress

if TYPE_CHECKING:
    from chronik.storage.repair import Rebuilt

app = App(
    name="storage",
    help="""\
Prepare and repair the data directory of a node that is not running.

For example:
  chronik storage format server.properties --user admin
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


@app.command(name="format")
def format_storage(
    file: Path | None = None,
    /,
    *,
    user: str | None = None,
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512",
    password_file: PasswordFile = None,
    add_scram: Annotated[list[str] | None, Parameter(name=["--add-scram", "-S"], negative="")] = None,
    override: Annotated[list[str] | None, Parameter(name=["--override", "-o"], negative="")] = None,
) -> int:
    """Give a new cluster its first users, before its first start.

    Use it if every listener requires a login: without a first user, no client could log in to add users. Other clusters
    need no formatting. Run it on each node of the new cluster, with the same user and password. The cluster accepts
    these users only while it has none.

    For example:
      chronik storage format server.properties --user admin
      chronik storage format server.properties --user admin --password-file admin.secret
      chronik storage format server.properties --add-scram 'SCRAM-SHA-512=[name=admin,password=...]'

    Parameters
    ----------
    file
        Path of the node's server.properties; default: every setting has its default.
    user
        Name of the user; its password is asked for.
    mechanism
        How this user logs in, SCRAM-SHA-256 or SCRAM-SHA-512; default: SCRAM-SHA-512.
    password_file
        File whose first line is the user's password; - is standard input; default: a prompt.
    add_scram
        A user as Kafka's kafka-storage.sh takes it; repeatable. Other users of the machine can see this password.
    override
        Setting as key=value; repeatable.
    """
    from chronik.broker.errors import BrokerError
    from chronik.broker.first_users import FILE, write_first_users
    from chronik.broker.identity import FILE as IDENTITY
    from chronik.broker.settings import Settings
    from chronik.cli.formatting import new_user, parse_user
    from chronik.runtime.errors import RuntimeFault
    from chronik.runtime.real import real_runtime

    runtime = real_runtime()
    users = [parse_user(each, runtime.randomness) for each in add_scram or ()]
    if user is not None:
        users.append(new_user(user, mechanism, read_password(password_file, user), runtime.randomness))
    if not users:
        raise Misused("name a user: chronik storage format FILE --user NAME")
    given = parse_settings(override or (), "--override")
    try:
        settings = Settings.load(str(file) if file else None, environment=os.environ, overrides=given)
    except BrokerError as fault:
        raise Misused(str(fault)) from fault
    directory = settings.log_dir
    if runtime.disk.exists(f"{directory}/{IDENTITY}"):
        raise CommandFailed(f"{directory} belongs to a node that has started: add users with `chronik user add`")
    try:
        write_first_users(runtime.disk, directory, users)
    except (RuntimeFault, OSError) as error:
        raise CommandFailed(f"{directory} was not formatted: {error}") from error
    names = ", ".join(dict.fromkeys(each.name for each in users))
    print(f"{directory}/{FILE} holds the credentials of {names}. Start the node; it takes them up.", file=sys.stderr)
    return DONE


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
    from chronik.broker.identity import directory_id_of, renew_directory_id
    from chronik.runtime.errors import RuntimeFault
    from chronik.runtime.real import real_runtime
    from chronik.storage.repair import is_whole
    from chronik.storage.repair import repair as rebuild

    if not directory.is_dir():
        raise Misused(f"{directory} is not a directory: name the node's log.dirs")
    if not (directory / "meta.properties").exists() and not (directory / "journal").exists():
        raise Misused(f"{directory} is not the data directory of a node: it has neither meta.properties nor journal")
    runtime = real_runtime()
    try:
        owner = directory_id_of(runtime, str(directory))
    except CannotStart as error:
        raise CommandFailed(f"{directory} was not repaired: {error}") from error
    if not force and is_whole(runtime.disk, str(directory), owner):
        print(
            f"{directory} has all its files. Nothing was changed; start the node. Use --force to rebuild it anyway.",
            file=sys.stderr,
        )
        return DONE
    rows: list[Row] = []
    with progress(f"rebuilding {directory}"):
        try:
            rebuild(runtime.disk, str(directory), lambda rebuilt: rows.append(_row(rebuilt)), owner)
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
