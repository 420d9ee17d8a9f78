"""`chronik man`: the manual page, made from the help of every command, so that the two cannot differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from chronik.cli.helping import joined

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

ENVIRONMENT: Final = {
    "CHRONIK_BOOTSTRAP": "Bootstrap brokers, if --bootstrap is not given.",
    "CHRONIK_COMMAND_CONFIG": "Properties file of a Kafka client, if --command-config is not given.",
    "CHRONIK_CONTEXT": "Name of a saved context, if --context is not given.",
    "CHRONIK_STORAGE": "Folder of tables and checkpoints, if --storage is not given.",
    "NO_COLOR": "If set, nothing is coloured.",
}
FILES: Final = {
    "~/.config/chronik/contexts.json": "Saved contexts; XDG_CONFIG_HOME moves it.",
    "~/.local/state/chronik/sql_history": "What was typed at the prompt of `chronik sql`; XDG_STATE_HOME moves it.",
}
STATUS: Final = {
    "0": "Done.",
    "1": "Refused, or not found.",
    "2": "Invalid command line; nothing was changed.",
    "3": "No broker reached.",
    "130": "Interrupted with Ctrl-C.",
}


def man() -> int:
    """Print the manual page, for `man`.

    For example:
      chronik man > ~/.local/share/man/man1/chronik.1
      chronik man | man -l -
    """
    print(page())
    return 0


def page() -> str:
    from chronik import __version__
    from chronik.cli.main import COMMANDS, HELP, app

    lines = [f'.TH CHRONIK 1 "" "chronik {__version__}" "User commands"', ".SH NAME"]
    lines += [r"chronik \- Kafka-wire-compatible broker cluster and data pipeline", ".SH SYNOPSIS"]
    lines += [r".B chronik", r"\fICOMMAND\fR [\fIOPTION\fR]...", ".SH DESCRIPTION", *_prose(HELP), ".SH COMMANDS"]
    for noun in COMMANDS:
        lines += _command(("chronik", noun), app[noun])
    for title, entries in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES), ("EXIT STATUS", STATUS)):
        lines += [f".SH {title}", *(line for name, text in entries.items() for line in _entry(name, text))]
    return "\n".join(lines)


def _command(words: tuple[str, ...], command: App) -> Iterator[str]:
    verbs = [verb for verb in command if not verb.startswith("-")]
    if verbs:
        for verb in verbs:
            yield from _command((*words, verb), command[verb])
        return
    arguments = command.assemble_argument_collection(parse_docstring=True)
    shown = [each for each in arguments if each.show]
    operands = [each for each in shown if each.index is not None]
    options = [each for each in shown if each.index is None]
    named = " ".join(_operand(each) if each.required else f"[{_operand(each)}]" for each in operands)
    yield f'.SS "{_escaped(" ".join([*words, *([named] if named else [])]))}"'
    yield from _prose(command.help.partition("Parameters\n")[0])
    for each in operands:
        yield from _entry(_operand(each), each.parameter.help or "")
    for each in options:
        names = [name for name in each.names if not name.startswith(("--no-", "--empty-"))]
        value = "" if each.token_count()[0] == 0 else " " + names[0].lstrip("-").upper().replace("-", "_")
        yield from _entry(", ".join(names) + value, each.parameter.help or "")


def _operand(argument: Argument) -> str:
    return argument.name.removeprefix("--").upper()


def _entry(name: str, text: str) -> list[str]:
    return [".TP", f".B {_escaped(name)}", *(_line(each) for each in joined(text).split("\n") if each.strip())]


def _prose(text: str) -> Iterator[str]:
    """Paragraphs are filled; examples, which are indented, keep their lines."""
    from inspect import cleandoc

    for paragraph in joined(cleandoc(text)).split("\n\n"):
        yield ".PP"
        is_example = False
        for line in paragraph.split("\n"):
            if line[:1].isspace() != is_example:
                is_example = not is_example
                yield ".EX" if is_example else ".EE"
            if line.strip("-"):
                yield _line(line)
        if is_example:
            yield ".EE"


def _line(text: str) -> str:
    escaped = _escaped(text)
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
