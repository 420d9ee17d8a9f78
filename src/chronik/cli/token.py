"""`chronik token`: delegation tokens. Programs use them to log in as a user without its password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.moments import parse_duration
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, Row, print_json, print_rows, time_text
from chronik.cli.session import DEFAULTS, DONE, Options, confirm, progress, run

if TYPE_CHECKING:
    from chronik.client.admin.tokens import Token
    from chronik.client.routing import ClusterClient

app = App(
    name="token",
    help="""\
Create, list, renew and expire delegation tokens.

A program that has a token can log in as the owner, until the token expires. It needs no password of the owner, and
the token can be taken back. Nodes need delegation.token.secret.key.

For example:
  chronik token create --renewer spark --max-lifetime 2d
  chronik token list
  chronik token renew dG9rZW4taWQ
  chronik token expire dG9rZW4taWQ""",
)

Repeated = Annotated[tuple[str, ...], Parameter(negative="")]
USER = "User:"
COLUMNS = (
    Column("token_id", "TOKEN"),
    Column("owner", "OWNER"),
    Column("requester", "REQUESTER"),
    Column("renewers", "RENEWERS", ",".join),
    Column("issued", "ISSUED"),
    Column("expires", "EXPIRES"),
    Column("ends", "RENEWABLE UNTIL"),
)


@app.command
def create(
    *,
    owner: str | None = None,
    renewer: Repeated = (),
    max_lifetime: str | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Create a token, and show its secret once, as settings for a client.

    The secret allows logging in as the owner. `chronik token list` does not show it.

    For example:
      chronik token create
      chronik token create --owner alice --renewer spark --max-lifetime 12h

    Parameters
    ----------
    owner
        Owner of the token; default: you. Another owner requires the permission CREATE_TOKENS on that user.
    renewer
        User who may renew and expire the token, besides the owner; repeatable.
    max_lifetime
        Time after which the token cannot be renewed, such as 12h or 2d; default: delegation.token.max.lifetime.ms.
    """
    lifetime_ms = None if max_lifetime is None else _positive(max_lifetime, "--max-lifetime")
    whose = None if owner is None else _principal(owner)

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import tokens

        with progress("creating a delegation token"):
            made = await tokens.create(cluster, whose, [_principal(each) for each in renewer], lifetime_ms)
        jaas = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{made.token_id}" password="{made.password}" tokenauth="true";'
        )
        if options.wants_json:
            print_json({**_row(made), "password": made.password, "sasl.jaas.config": jaas})
        else:
            print_rows([_row(made)], COLUMNS, as_json=False)
            print(f"\nIn client.properties:\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}")
        return DONE

    return run(options, work)


@app.command(name="list")
def list_tokens(*, owner: Repeated = (), options: Options = DEFAULTS) -> int:
    """List the tokens that you may see: your own, and those of others if you have the permission.

    Parameters
    ----------
    owner
        Only tokens that this user owns, has requested or may renew; repeatable.
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import tokens

        with progress("listing delegation tokens"):
            found = await tokens.describe(cluster, [_principal(each) for each in owner] if owner else None)
        empty = "No delegation tokens: create one with `chronik token create`."
        print_rows([_row(each) for each in found], COLUMNS, as_json=options.wants_json, empty=empty)
        return DONE

    return run(options, work)


@app.command
def renew(token: str, /, *, period: str | None = None, options: Options = DEFAULTS) -> int:
    """Make a token last longer.

    Parameters
    ----------
    token
        Id of the token: see `chronik token list`.
    period
        Time from now until it expires, such as 12h; default and longest: delegation.token.expiry.time.ms.
    """
    period_ms = None if period is None else _positive(period, "--period")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import tokens

        with progress(f"renewing {token}"):
            found = await _existing(cluster, token)
            expiry_ms = await tokens.renew(cluster, found, period_ms)
        print_rows([{**_row(found), "expires": time_text(expiry_ms)}], COLUMNS, as_json=options.wants_json)
        return DONE

    return run(options, work)


@app.command
def expire(token: str, /, *, period: str | None = None, options: Options = DEFAULTS) -> int:
    """Remove a token at once, or let it expire earlier.

    Nobody can log in with it any more. Connections that are open stay open until the token would have expired.

    Parameters
    ----------
    token
        Id of the token: see `chronik token list`.
    period
        Time from now until it expires, such as 10m; default: none, the token is removed.
    """
    period_ms = None if period is None else _positive(period, "--period")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin import tokens

        found = await _existing(cluster, token)
        if period_ms is None:
            confirm(f"Remove delegation token {token} of {found.owner}?")
        with progress(f"expiring {token}"):
            expiry_ms = await tokens.expire(cluster, found, tokens.AT_ONCE_MS if period_ms is None else period_ms)
        print_rows([{**_row(found), "expires": time_text(expiry_ms)}], COLUMNS, as_json=options.wants_json)
        return DONE

    return run(options, work)


async def _existing(cluster: ClusterClient, token_id: str) -> Token:
    from chronik.client.admin import tokens

    known = {each.token_id: each for each in await tokens.describe(cluster)}
    if token_id not in known:
        raise CommandFailed(
            f"there is no delegation token {token_id!r} that you may see: DELEGATION_TOKEN_NOT_FOUND"
            f"{did_you_mean(token_id, known)}"
        )
    return known[token_id]


def _principal(text: str) -> str:
    return text if text.startswith(USER) else f"{USER}{text}"


def _positive(text: str, option: str) -> int:
    duration_ms = parse_duration(text, option)
    if not duration_ms:
        raise Misused(f"{option} {text!r}: write a duration that is longer than nothing")
    return duration_ms


def _row(token: Token) -> Row:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": time_text(token.issue_ms),
        "expires": time_text(token.expiry_ms),
        "ends": time_text(token.max_ms),
    }
