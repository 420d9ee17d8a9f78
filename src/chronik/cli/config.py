"""`chronik config`: read and change the configuration of topics, brokers and groups."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.moments import with_durations
from chronik.cli.naming import did_you_mean, existing_topic, parse_settings
from chronik.cli.output import Column, Row, human_bytes, human_duration, print_json, print_rows
from chronik.cli.session import DEFAULTS, Options, run
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show

if TYPE_CHECKING:
    from chronik.client.admin.configs import Config, ConfigResource
    from chronik.client.routing import ClusterClient

Kind = Literal["topic", "broker", "group"]

app = App(
    name="config",
    help="""\
Read and change the configuration of topics, brokers and groups.

A broker is named by its id; `default` means all brokers. Values set on a resource win over the broker's.

For example:
  chronik config get topic orders
  chronik config get topic orders retention.ms
  chronik config set topic orders retention.ms=1d
  chronik config unset topic orders retention.ms
  chronik config get broker 1 --all""",
)

COLUMNS = (
    Column("name", "KEY"),
    Column("value", "VALUE"),
    Column("source", "SET BY"),
)
WITHOUT_EFFECT = "Without effect."  # how Chronik's documentation of such a key begins
FOREVER_MS = 1 << 53  # such a time is the largest number there is, which no unit makes clearer
SET_BY = {
    "TOPIC": "topic",
    "BROKER": "this broker",
    "ALL_BROKERS": "all brokers",
    "FILE": "server.properties",
    "DEFAULT": "default",
    "GROUP": "group",
}


@app.command
def get(
    kind: Kind,
    name: str,
    /,
    *keys: str,
    all_keys: Annotated[bool, Parameter(name=["--all", "-a"])] = False,
    docs: bool = False,
    options: WatchOptions = WATCH_DEFAULTS,
) -> int:
    """Show settings and where each value comes from.

    Without keys: the settings of the resource itself. With --all: everything that applies to it.

    For example:
      chronik config get topic orders --all
      chronik config get topic orders cleanup.policy --docs

    Parameters
    ----------
    kind
        topic, broker or group.
    name
        Its name; a broker's id, or `default` for all brokers.
    keys
        Only these settings.
    all_keys
        Include inherited and default values.
    docs
        Show what each setting does.
    """

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import configs

        resource = await _resource(cluster, kind, name)
        found = await configs.describe(cluster, resource)
        _require_known(keys, found)
        own = resource.own_source
        shown = [config for config in found if config.name in keys or (not keys and (all_keys or config.source is own))]
        rows: list[Row] = [
            {
                "name": config.name,
                "value": config.value,
                "source": SET_BY.get(config.source.name, config.source.name.lower()),
                "read_only": config.is_read_only,
                "sensitive": config.is_sensitive,
                "documentation": config.documentation,
            }
            for config in shown
        ]
        columns = (*COLUMNS, Column("documentation", "MEANING")) if docs else COLUMNS
        whose = "The cluster-wide default" if (kind, name) == ("broker", "default") else str(resource)
        empty = f"{whose} has no settings of its own; --all shows those that apply"
        if not options.wants_json:
            rows = [{**row, "value": _with_units(str(row["name"]), row["value"])} for row in rows]
        print_rows(rows, columns, as_json=options.wants_json, empty=empty)

    return show(options, work)


@app.command(name="set")
def set_keys(kind: Kind, name: str, /, *settings: str, validate_only: bool = False, options: Options = DEFAULTS) -> int:
    """Set values atomically. Other settings keep their values.

    For example:
      chronik config set topic orders retention.ms=1d cleanup.policy=compact,delete
      chronik config set broker default log.retention.ms=86400000

    Parameters
    ----------
    kind
        topic, broker or group.
    name
        Its name; a broker's id, or `default` for all brokers.
    settings
        Settings as key=value. A time in ms may have a unit: retention.ms=7d.
    validate_only
        Check only; change nothing.
    """
    wanted = with_durations(parse_settings(settings, "setting"))
    if not wanted:
        raise Misused("nothing to set: write key=value")
    return _alter(kind, name, wanted, (), options, validate_only=validate_only)


@app.command
def unset(kind: Kind, name: str, /, *keys: str, options: Options = DEFAULTS) -> int:
    """Remove settings; the broker's value or the default applies again.

    For example:
      chronik config unset topic orders retention.ms

    Parameters
    ----------
    kind
        topic, broker or group.
    name
        Its name; a broker's id, or `default` for all brokers.
    keys
        Settings to remove.
    """
    if not keys:
        raise Misused("nothing to unset: name a key")
    return _alter(kind, name, {}, keys, options, validate_only=False)


def _with_units(name: str, value: object) -> object:
    """A time or a size as it is stored, and as people say it: 604800000 (7d)."""
    text = str(value)
    if not text.isascii() or not text.isdecimal() or int(text) < 1000:
        return value
    if name.endswith(".ms"):
        return f"{text} ({human_duration(int(text))})" if int(text) < FOREVER_MS else value
    return f"{text} ({human_bytes(int(text))})" if name.endswith(".bytes") else value


def _alter(
    kind: Kind, name: str, wanted: dict[str, str], keys: tuple[str, ...], options: Options, *, validate_only: bool
) -> int:
    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import configs
        from chronik.client.errors import Refused

        resource = await _resource(cluster, kind, name)
        try:
            await configs.alter(cluster, resource, set_to=wanted, unset=keys, validate_only=validate_only)
        except Refused as fault:
            known = await configs.describe(cluster, resource)
            hints = "".join(_hint(key, known) for key in (*wanted, *keys))
            raise CommandFailed(f"{fault}{hints}") from fault
        idle = await _without_effect(cluster, resource, wanted) if wanted else {}
        if options.wants_json:
            changed = {"kind": kind, "name": name, "set": wanted, "unset": list(keys), "validate_only": validate_only}
            print_json({**changed, "without_effect": idle})
        elif len(idle) < len(wanted) + len(keys):
            print(f"{resource}: {'valid, nothing was changed' if validate_only else 'changed'}")
        for key, why in idle.items():
            print(f"{resource}: {key} is accepted and has no effect here. {why}", file=sys.stderr)

    return run(options, work)


async def _without_effect(cluster: ClusterClient, resource: ConfigResource, wanted: Iterable[str]) -> dict[str, str]:
    """The keys that the broker keeps and never acts on, each with its reason. Other brokers do not say."""
    from chronik.client.admin import configs

    found = await configs.describe(cluster, resource, keys=list(wanted))
    said = {config.name: config.documentation or "" for config in found}
    return {
        key: words.removeprefix(WITHOUT_EFFECT).strip()
        for key, words in said.items()
        if words.startswith(WITHOUT_EFFECT)
    }


async def _resource(cluster: ClusterClient, kind: Kind, name: str) -> ConfigResource:
    from chronik.client.admin.configs import ConfigResource, ResourceKind

    if kind == "topic":
        await existing_topic(cluster, name)
    elif kind == "broker":
        name = "" if name == "default" else name
        if name and not name.isdigit():
            raise Misused(f"broker {name!r}: name a broker by its id, or `default` for all")
    return ConfigResource(ResourceKind[kind.upper()], name)


def _require_known(keys: Iterable[str], found: list[Config]) -> None:
    known = {config.name for config in found}
    for key in keys:
        if key not in known:
            raise CommandFailed(f"unknown setting {key!r}{did_you_mean(key, known)}")


def _hint(key: str, found: list[Config]) -> str:
    known = {config.name for config in found}
    return "" if key in known else did_you_mean(key, known)
