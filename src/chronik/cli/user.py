"""`chronik user`: the users that log in by SCRAM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, Row, print_rows
from chronik.cli.passwords import PasswordFile, read_password
from chronik.cli.session import DEFAULTS, DONE, Options, confirm, progress, run
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show

if TYPE_CHECKING:
    from chronik.client.admin.users import Credential
    from chronik.client.errors import Refused
    from chronik.client.routing import ClusterClient

app = App(
    name="user",
    help="""\
Add, list, describe and delete users that log in by SCRAM.

For example:
  chronik user add alice
  chronik user list
  chronik user delete alice""",
)

MechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
COLUMNS = (Column("user", "USER"), Column("mechanism", "MECHANISM"), Column("iterations", "ITERATIONS", is_number=True))


@app.command
def add(
    name: str,
    /,
    *,
    mechanism: Annotated[MechanismName, Parameter(name=["--mechanism", "-m"])] = "SCRAM-SHA-512",
    password_file: PasswordFile = None,
    iterations: int = 4096,
    options: Options = DEFAULTS,
) -> int:
    """Add a user, or set a new password.

    The password is asked for, or read from a file or standard input. It is never sent: brokers get a salted password.
    Connections that are open stay open; the next login needs the new password.

    For example:
      chronik user add alice
      chronik user add alice --mechanism SCRAM-SHA-256 --password-file alice.secret
      openssl rand -hex 16 | tee alice.secret | chronik user add alice

    Parameters
    ----------
    name
        Name of the user.
    mechanism
        SCRAM-SHA-256 or SCRAM-SHA-512; default: SCRAM-SHA-512. A user may have both.
    password_file
        File whose first line is the password; - is standard input; default: a prompt.
    iterations
        How slow the password is to guess, from 4096 to 16384; default: 4096.
    """
    password = read_password(password_file, name)

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import users
        from chronik.wire.scram import KINDS

        salted = users.salt_password(cluster.randomness, KINDS[mechanism], password, iterations)
        with progress(f"setting the password of {name}"):
            await users.put(cluster, name, salted)
        row: Row = {"user": name, "mechanism": mechanism, "iterations": iterations}
        print_rows([row], COLUMNS, as_json=options.wants_json)
        return DONE

    return run(options, work)


@app.command(name="list")
def list_users(*, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """List users, with the mechanisms that each can log in by."""

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import users

        with progress("listing users"):
            found = await users.describe(cluster)
        rows = [row for name, credentials in sorted(found.items()) for row in _rows(name, credentials)]
        print_rows(rows, COLUMNS, as_json=options.wants_json, empty="No users: add one with `chronik user add NAME`.")
        return DONE

    return show(options, work)


@app.command
def describe(name: str, /, *, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """Show by which mechanisms a user can log in.

    Parameters
    ----------
    name
        Name of the user.
    """

    async def work(cluster: ClusterClient) -> int:
        with progress(f"describing {name}"):
            credentials = await _existing(cluster, name)
        print_rows(_rows(name, credentials), COLUMNS, as_json=options.wants_json)
        return DONE

    return show(options, work)


@app.command
def delete(
    name: str,
    /,
    *,
    mechanism: Annotated[MechanismName | None, Parameter(name=["--mechanism", "-m"])] = None,
    options: Options = DEFAULTS,
) -> int:
    """Delete a user, or its credential for one mechanism.

    The user cannot log in again. Connections that are open stay open until their login ends (see
    connections.max.reauth.ms).

    Parameters
    ----------
    name
        Name of the user.
    mechanism
        Remove only the credential of this mechanism; default: all.
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import users
        from chronik.wire.scram import KINDS

        present = await _existing(cluster, name)
        gone = [each.mechanism for each in present if mechanism in (None, each.mechanism)]
        if not gone:
            raise CommandFailed(f"user {name!r} has no credential for {mechanism}")
        confirm(f"Delete {', '.join(gone)} of user {name}?")
        with progress(f"deleting {name}"):
            await users.delete(cluster, name, [KINDS[each] for each in gone])
        rows: list[Row] = [{"user": name, "mechanism": each, "iterations": None} for each in gone]
        print_rows(rows, COLUMNS[:2], as_json=options.wants_json)
        return DONE

    return run(options, work)


async def _existing(cluster: ClusterClient, name: str) -> list[Credential]:
    """What the user has, or a complaint with the nearest name."""
    from chronik.client.admin import users
    from chronik.client.errors import Refused
    from chronik.wire.error_codes import ErrorCode

    found = (await users.describe(cluster, [name]))[name]
    if not isinstance(found, Refused):
        return found
    if found.kafka_error is not ErrorCode.RESOURCE_NOT_FOUND:
        raise found
    known = await users.describe(cluster)
    raise CommandFailed(f"user {name!r} does not exist: RESOURCE_NOT_FOUND{did_you_mean(name, known)}")


def _rows(name: str, credentials: list[Credential] | Refused) -> list[Row]:
    if not isinstance(credentials, list):
        raise credentials
    return [{"user": name, "mechanism": each.mechanism, "iterations": each.iterations} for each in credentials]
