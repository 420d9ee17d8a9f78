"""The `chronik` command: parses what was typed and calls one file per noun.

Nouns are named here as text and imported when they are called, so that `chronik --help` is quick and a broker runs
where the packages of the console or the pipeline are not installed. A new noun is one line in COMMANDS and one file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from cyclopts import App, CycloptsError, Parameter

from chronik import __version__
from chronik.cli.complaining import complain, use_form_of, why_misused
from chronik.cli.contexts import apply_context
from chronik.cli.errors import CommandError, Misused
from chronik.cli.helping import Reflowing
from chronik.cli.session import DONE, EXIT_CODES, INTERRUPTED, MISUSED
from chronik.cli.watching import with_periods

# What is imported when a noun is called, or when all are listed: a line of help is what a noun says of itself. So these
# modules import what they need of other packages inside their functions.
COMMANDS: Final = {
    "up": "chronik.cli.up:up",
    "init": "chronik.cli.init:init",
    "server": "chronik.cli.server:server",
    "topic": "chronik.cli.topic:app",
    "produce": "chronik.cli.produce:produce",
    "consume": "chronik.cli.consume:consume",
    "group": "chronik.cli.group:app",
    "txn": "chronik.cli.txn:app",
    "config": "chronik.cli.config:app",
    "quota": "chronik.cli.quota:app",
    "user": "chronik.cli.user:app",
    "token": "chronik.cli.token:app",
    "acl": "chronik.cli.acl:app",
    "cert": "chronik.cli.cert:app",
    "cluster": "chronik.cli.cluster:app",
    "doctor": "chronik.cli.doctor:doctor",
    "console": "chronik.cli.console:console",
    "backup": "chronik.cli.backup:app",
    "restore": "chronik.cli.restore:restore",
    "storage": "chronik.cli.storage:app",
    "compat": "chronik.cli.compat:compat",
    "debug": "chronik.cli.debug:app",
    "sim": "chronik.cli.sim:app",
    "sql": "chronik.cli.sql:sql",
    "pipeline": "chronik.cli.pipeline:app",
    "dlq": "chronik.cli.dlq:app",
    "contract": "chronik.cli.contract:app",
    "table": "chronik.cli.table:app",
    "materialize": "chronik.cli.materialize:materialize",
    "context": "chronik.cli.context:app",
    "completion": "chronik.cli.completion:completion",
    "man": "chronik.cli.manual:man",
}

EARLY_OPTIONS: Final = ("--bootstrap", "--bootstrap-server", "--bootstrap-servers", "--command-config", "--format")

HELP: Final = """\
A Kafka-wire-compatible broker cluster with a Raft metadata quorum, and a data pipeline on Spark.

For example:
  chronik up
  chronik topic create orders --partitions 6
  echo hello | chronik produce orders
  chronik consume orders --from earliest
  chronik group describe billing

Commands that talk to a cluster take --bootstrap (or CHRONIK_BOOTSTRAP) and --format json. Where it needs a login, name
a properties file with --command-config (or CHRONIK_COMMAND_CONFIG). `chronik context` saves both under a name, which
--context (or CHRONIK_CONTEXT) chooses."""

app = App(
    name="chronik",
    help=HELP,
    help_format="plaintext",
    help_formatter=Reflowing(),
    help_epilogue=EXIT_CODES,
    version=__version__,
    # A flag is there or not; defaults are told in the words of each option, where they need telling.
    default_parameter=Parameter(negative="", show_default=False),
)
for _place, (_noun, _target) in enumerate(COMMANDS.items()):
    app.command(_target, name=_noun, sort_key=_place)  # help lists them as above: what a newcomer needs comes first


def normalized(words: Sequence[str]) -> list[str]:
    """What was typed, in the form that the parser knows.

    `help NOUN`, `version` and `status` are words that people try first. Options of a cluster may stand before the noun,
    as in other tools: they move behind it.
    """
    rest = list(words)
    moved: list[str] = []
    while rest and rest[0].partition("=")[0] in EARLY_OPTIONS:
        taken = 1 if "=" in rest[0] else 2
        moved += rest[:taken]
        del rest[:taken]
    match rest[:1]:
        case ["help"]:
            rest = [*rest[1:], "--help"]
        case ["version"] if len(rest) == 1:
            rest = ["--version"]
        case ["status"]:
            rest = ["cluster", *rest]
    end = rest.index("--") if "--" in rest else len(rest)
    return with_periods([*rest[:end], *moved, *rest[end:]])


def _require_text(words: Sequence[str]) -> Sequence[str]:
    """Names and values go to brokers as UTF-8; other bytes have no place in a request."""
    for number, word in enumerate(words, 1):
        if not word.isprintable():
            if "\0" in word:
                raise Misused(f"argument {number} holds a NUL character, which no name or path can hold")
            try:
                word.encode()
            except UnicodeEncodeError:
                raise Misused(f"argument {number} is not UTF-8: {word!a}") from None
    return words


def main() -> None:
    try:
        use_form_of(sys.argv[1:])
        words = normalized(apply_context(_require_text(sys.argv[1:]), os.environ))
        if words[:1] in ([], ["--help"], ["-h"]):
            for noun in COMMANDS:
                app[noun]
        app(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        complain(why_misused(error), MISUSED)
        sys.exit(MISUSED)
    except CommandError as error:
        complain(str(error), error.exit_code)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has closed the pipe, which is not an error. Python must not try to flush what is
        # left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # rich, which prints help, ends with 1 by itself
            sys.exit(DONE)
        raise
