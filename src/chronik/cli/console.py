"""`chronik console`: the web console, in the foreground, beside the brokers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chronik.cli.errors import Misused
from chronik.cli.session import DEFAULTS, DONE, Options

SCRIPT_TOKEN = "CHRONIK_CONSOLE_TOKEN"  # noqa: S105 - the variable's name


def console(
    *,
    port: int = 8080,
    listen: str = "127.0.0.1",
    allow_changes: bool = False,
    login: bool = False,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    host: Annotated[tuple[str, ...], Parameter(name="--host")] = (),
    storage: Path | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Serve the web console for a cluster; Ctrl-C stops it.

    It listens on loopback and prints an address with a one-time token. It is read-only unless you allow changes.

    On other addresses it needs TLS and --login: users of the brokers then log in with name and password, and the
    brokers' access rules decide what they may do. --command-config names the console's own user, who gathers metrics.

    Scripts may use its API: set CHRONIK_CONSOLE_TOKEN, and send it as a bearer token.

    For example:
      chronik console
      chronik console --bootstrap broker1:9092 --allow-changes
      chronik console --listen 0.0.0.0 --login --host console.example.com --command-config console.properties
        --tls-certificate console.pem --tls-key console.key

    Parameters
    ----------
    port
        Port; 0 takes a free one; default: 8080.
    listen
        Address to listen on; default: 127.0.0.1.
    allow_changes
        Allow changes of topics, groups and records.
    login
        Users log in as users of the brokers, by SASL.
    tls_certificate
        Certificate chain, PEM.
    tls_key
        Private key of the certificate, PEM.
    host
        A further name by which browsers call the console; repeatable.
    storage
        Folder of a pipeline whose tables are shown; default: chronik-storage. With --login only the folder given
        here: access rules do not cover tables, so everyone who can log in sees all of them.
    """
    from chronik.client.addresses import parse_addresses
    from chronik.client.errors import BadAddress
    from chronik.client.properties import BadProperties, read_properties
    from chronik.console.app import Console
    from chronik.console.server import bind, run
    from chronik.console.settings import STORAGE_DEFAULT, BadConsoleSetting, ConsoleSettings, Listening

    try:
        parse_addresses(options.bootstrap)
        properties = read_properties(str(options.command_config.expanduser())) if options.command_config else {}
        settings = ConsoleSettings(
            bootstrap=options.bootstrap,
            listening=Listening(listen, port, tls_certificate, tls_key, host),
            security=options.security(),
            properties=tuple(sorted(properties.items())),
            has_logins=login,
            allows_changes=allow_changes,
            storage=str(storage) if storage else os.devnull if login else STORAGE_DEFAULT,
            script_token=os.environ.get(SCRIPT_TOKEN, ""),
        )
        settings.check()
        listener = bind(settings.listening)
    except BadAddress as fault:
        raise Misused(f"--bootstrap: {fault}") from fault
    except BadProperties as fault:
        raise Misused(f"--command-config: {fault}") from fault
    except BadConsoleSetting as fault:
        raise Misused(str(fault)) from fault

    def started(made: Console) -> None:
        token = "" if login else made.sessions.new_token()
        print(f"console  {made.address(token=token)}", flush=True)
        note = "" if allow_changes else "  It is read-only: --allow-changes allows changes."
        print(f"Ready. Press Ctrl-C to stop.{note}", file=sys.stderr, flush=True)

    run(settings, listener, started)
    return DONE
