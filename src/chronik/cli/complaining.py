"""What commands say on stderr when something is wrong: one line for people, one line of JSON with `--format json`.

A message is `chronik: ...`, in red on a terminal. As JSON it is an object with `error`, the name of Kafka's error code
in `code` if it has one, and the exit code that the message leads to.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from chronik.cli.naming import did_you_mean

if TYPE_CHECKING:
    from cyclopts import CycloptsError

REFUSED: Final = 1
_NEAREST: Final = re.compile(r'Did you mean "([^"]+)"')
_KAFKA_ERROR: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


class _Form:
    is_json = False


def use_form_of(words: Sequence[str]) -> None:
    """Messages get the form that the command line asks for."""
    end = words.index("--") if "--" in words else len(words)
    form = ""
    for word, after in zip(words[:end], [*words[1:end], ""], strict=False):
        option, equals, value = word.partition("=")
        if option == "--format":
            form = value if equals else after
    _Form.is_json = form == "json"


def complain(message: str, exit_code: int = REFUSED) -> None:
    if _Form.is_json:
        print(json.dumps({"error": message, "code": _code_in(message), "exit_code": exit_code}), file=sys.stderr)
        return
    start, end = ("\033[31m", "\033[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"{start}chronik: {message}{end}", file=sys.stderr)


def why_misused(error: CycloptsError) -> str:
    """What is wrong with a command line, and where to read on."""
    from cyclopts import MissingArgumentError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError

    command = " ".join(("chronik", *(error.command_chain or ())))
    word = next(iter(error.unused_tokens or ()), "")
    match error:
        case UnknownCommandError():
            nearest = _NEAREST.search(str(error))
            hint = f"; did you mean {nearest[1]!r}?" if nearest else ""
            what = f"`{command}` has no command {word!r}{hint}"
        case UnknownOptionError():
            option = error.token.keyword or error.token.value
            known = [name for argument in error.argument_collection or () for name in argument.names]
            what = f"unknown option {option!r}{did_you_mean(option, known)}"
        case MissingArgumentError() if error.argument is not None:
            is_typed = any(name in (error.root_input_tokens or ()) for name in error.argument.names)
            is_word = error.argument.index is not None
            name = error.argument.name.removeprefix("--").upper() if is_word else error.argument.name
            what = f"{error.argument.name} needs a value" if is_typed else f"{name} is missing"
        case UnusedCliTokensError():
            what = f"unexpected argument {word!r}"
        case _:
            text = str(error)
            what = text[:1].lower() + text[1:]
    return f"{what} See `{command} --help`" if what.endswith("?") else f"{what.rstrip('.')}; see `{command} --help`"


def _code_in(message: str) -> str | None:
    from chronik.wire.error_codes import ErrorCode

    return next((name for name in _KAFKA_ERROR.findall(message) if name in ErrorCode.__members__), None)
