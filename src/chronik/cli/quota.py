"""`chronik quota`: limit what users, client ids and addresses may use of each broker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from chronik.cli.errors import Misused
from chronik.cli.naming import did_you_mean, parse_settings
from chronik.cli.output import Column, Row, print_json, print_rows
from chronik.cli.session import DEFAULTS, Options, run
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show

if TYPE_CHECKING:
    from chronik.client.admin.quotas import Entity
    from chronik.client.routing import ClusterClient

app = App(
    name="quota",
    help="""\
Limit what users, client ids and addresses may use of each broker.

A client above its quota is told to wait, and the broker does not read from it for that long. The most specific quota
applies: user with client id, then user, then client id. The name `default` stands for all that have none of their own.

For example:
  chronik quota set --user alice producer_byte_rate=10MB
  chronik quota set --client-id default consumer_byte_rate=5MB
  chronik quota set --user alice --client-id etl request_percentage=50
  chronik quota list
  chronik quota unset --user alice producer_byte_rate""",
)

DEFAULT_NAME: Final = "default"
MEANINGS: Final = {
    "producer_byte_rate": "bytes per second that clients may send",
    "consumer_byte_rate": "bytes per second that clients may fetch",
    "request_percentage": "percent of one core's time that requests may take",
    "controller_mutation_rate": "partitions per second that may be created or deleted",
    "connection_creation_rate": "new connections per second from an address",
}
COLUMNS: Final = (
    Column("user", "USER"),
    Column("client_id", "CLIENT ID"),
    Column("ip", "IP"),
    Column("quota", "QUOTA"),
    Column("limit", "LIMIT", is_number=True),
    Column("meaning", "MEANING"),
)
UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_amount = re.compile(r"(?P<number>[0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*(?P<unit>[kmg]i?)?(?:b(?:/s)?)?%?", re.IGNORECASE)

UserName = Annotated[str | None, Parameter(name="--user")]
ClientIdName = Annotated[str | None, Parameter(name="--client-id")]


@app.command(name="list")
def list_quotas(*, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """List the quotas of all users, client ids and addresses.

    For example:
      chronik quota list
      chronik quota list --format json
    """

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import quotas

        rows: list[Row] = [
            {
                **{_column(kind): DEFAULT_NAME if name is None else name for kind, name in each.entity.names.items()},
                "quota": key,
                "limit": int(limit) if limit == int(limit) else limit,
                "meaning": MEANINGS.get(key, ""),
            }
            for each in sorted(await quotas.list_all(cluster), key=lambda each: str(each.entity))
            for key, limit in sorted(each.limits.items())
        ]
        print_rows(rows, COLUMNS, as_json=options.wants_json, empty="The cluster has no quotas.")

    return show(options, work)


@app.command(name="set")
def set_quotas(
    *limits: str,
    user: UserName = None,
    client_id: ClientIdName = None,
    ip: str | None = None,
    validate_only: bool = False,
    options: Options = DEFAULTS,
) -> int:
    """Set quotas of a user, a client id, both, or an address. Other quotas keep their values.

    For example:
      chronik quota set --user alice producer_byte_rate=10MB consumer_byte_rate=20MB
      chronik quota set --user default --client-id default request_percentage=200
      chronik quota set --ip 10.0.0.7 connection_creation_rate=5

    Parameters
    ----------
    limits
        Quotas as key=value; bytes may have a unit: 10MB, 512KiB. Keys: producer_byte_rate, consumer_byte_rate,
        request_percentage, controller_mutation_rate; of an address: connection_creation_rate.
    user
        Name of the user, or `default` for all users without a quota.
    client_id
        client.id of the client, or `default` for all without a quota.
    ip
        Address of the client, or `default` for all without a quota.
    validate_only
        Check only; change nothing.
    """
    wanted = {key: parse_amount(key, text) for key, text in parse_settings(limits, "quota").items()}
    if not wanted:
        raise Misused("nothing to set: write key=value, for example producer_byte_rate=10MB")
    return _alter(_names(user, client_id, ip), {**wanted}, options, validate_only=validate_only)


@app.command
def unset(
    *keys: str,
    user: UserName = None,
    client_id: ClientIdName = None,
    ip: str | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Remove quotas; the next less specific quota applies again, if there is one.

    For example:
      chronik quota unset --user alice producer_byte_rate

    Parameters
    ----------
    keys
        Quotas to remove.
    user
        Name of the user, or `default`.
    client_id
        client.id of the client, or `default`.
    ip
        Address of the client, or `default`.
    """
    if not keys:
        raise Misused("nothing to unset: name a quota, for example producer_byte_rate")
    return _alter(_names(user, client_id, ip), dict.fromkeys(keys), options, validate_only=False)


def parse_amount(key: str, text: str) -> float:
    """10MB, 512KiB, 1.5, 50%."""
    matched = _amount.fullmatch(text.strip())
    if matched is None:
        raise Misused(f"{key}={text}: write a number, with a unit if it is in bytes: 10MB, 512KiB")
    return float(matched["number"]) * UNITS[(matched["unit"] or "").lower()]


def _names(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    given = {"user": user, "client-id": client_id, "ip": ip}
    names = {kind: None if name == DEFAULT_NAME else name for kind, name in given.items() if name is not None}
    if not names:
        raise Misused("whose quota? Give --user, --client-id, both, or --ip; `default` as name stands for all others")
    if "ip" in names and len(names) > 1:
        raise Misused("--ip cannot be combined with --user or --client-id")
    return names


def _alter(
    names: dict[str, str | None], changes: dict[str, float | None], options: Options, *, validate_only: bool
) -> int:
    for key in changes:
        if key not in MEANINGS:
            hint = did_you_mean(key, MEANINGS) or f": use one of {', '.join(MEANINGS)}"
            raise Misused(f"unknown quota {key!r}{hint}")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import quotas

        entity: Entity = quotas.Entity(names)
        await quotas.alter(cluster, entity, changes, validate_only=validate_only)
        if options.wants_json:
            shown = {_column(kind): DEFAULT_NAME if name is None else name for kind, name in names.items()}
            print_json({**shown, "changes": changes, "validate_only": validate_only})
        else:
            print(f"{entity}: {'valid, nothing was changed' if validate_only else 'changed'}")

    return run(options, work)


def _column(kind: str) -> str:
    return kind.replace("-", "_")
