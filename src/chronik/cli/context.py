"""`chronik context`: names for clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from chronik.cli.contexts import NAME, Context, Contexts, contexts_path
from chronik.cli.errors import Misused
from chronik.cli.output import Column, Row, print_rows, yes_or_no
from chronik.cli.session import DONE

app = App(
    name="context",
    help="""\
Save the addresses and logins of clusters under names, and switch between them.

For example:
  chronik context add prod --bootstrap host-1:9092,host-2:9092 --command-config prod.properties
  chronik context use prod
  chronik topic list --context staging""",
)

COLUMNS = (
    Column("current", "CURRENT", yes_or_no),
    Column("name", "NAME"),
    Column("bootstrap", "BOOTSTRAP"),
    Column("command_config", "COMMAND CONFIG"),
)


@app.command
def add(
    name: str,
    *,
    bootstrap: Annotated[str, Parameter(name=["--bootstrap", "--bootstrap-server", "--bootstrap-servers"])],
    command_config: Path | None = None,
    replace: bool = False,
) -> int:
    """Save a context. The first one becomes the current one.

    For example:
      chronik context add local --bootstrap localhost:9092
      chronik context add prod --bootstrap host-1:9092 --command-config prod.properties

    Parameters
    ----------
    name
        Name of the context: letters, digits, dots, hyphens and underscores.
    bootstrap
        Bootstrap brokers, as host:port,host:port.
    command_config
        Properties file of a Kafka client. The context keeps its path, not its contents.
    replace
        Replace a context of this name.
    """
    from chronik.client.addresses import parse_addresses
    from chronik.client.errors import BadAddress

    if not NAME.fullmatch(name):
        raise Misused(f"{name!r} is not a name for a context: use letters, digits, dots, hyphens and underscores")
    try:
        parse_addresses(bootstrap)
    except BadAddress as fault:
        raise Misused(f"--bootstrap: {fault}") from fault
    path = None if command_config is None else command_config.expanduser().resolve()
    if path is not None and not path.is_file():
        raise Misused(f"--command-config {command_config}: there is no such file")
    saved = Contexts.load()
    if name in saved.by_name and not replace:
        raise Misused(f"context {name!r} exists: use another name, or --replace")
    saved.by_name[name] = Context(bootstrap, None if path is None else str(path))
    saved.current = saved.current or name
    saved.save()
    print(f"saved {name} in {contexts_path()}{'; it is the current context' if saved.current == name else ''}")
    return DONE


@app.command
def use(name: str) -> int:
    """Make a context the current one: commands without --context and --bootstrap use it.

    For example:
      chronik context use prod

    Parameters
    ----------
    name
        Name of the context.
    """
    saved = Contexts.load()
    context = saved.named(name)
    saved.current = name
    saved.save()
    print(f"{name} is the current context: {context.bootstrap}")
    return DONE


@app.command(name="list")
def list_(*, format_: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table") -> int:
    """List saved contexts.

    For example:
      chronik context list

    Parameters
    ----------
    format_
        Output format: table (default) or json.
    """
    saved = Contexts.load()
    rows: list[Row] = [
        {
            "current": name == saved.current,
            "name": name,
            "bootstrap": each.bootstrap,
            "command_config": each.command_config,
        }
        for name, each in sorted(saved.by_name.items())
    ]
    empty = "No contexts. Save one with `chronik context add NAME --bootstrap HOST:PORT`."
    print_rows(rows, COLUMNS, as_json=format_ == "json", empty=empty)
    return DONE


@app.command
def remove(name: str) -> int:
    """Remove a context. Its properties file stays.

    For example:
      chronik context remove prod

    Parameters
    ----------
    name
        Name of the context.
    """
    saved = Contexts.load()
    saved.named(name)
    del saved.by_name[name]
    if saved.current == name:
        saved.current = None
    saved.save()
    print(f"removed {name}{'' if saved.current else '; no context is current'}")
    return DONE
