"""Saved contexts: names for clusters, so that commands need neither --bootstrap nor --command-config.

A context holds bootstrap addresses and the path of a properties file. Secrets stay in that file. A context applies as a
whole or not at all: a command with --bootstrap, or with CHRONIK_BOOTSTRAP set, uses none, so that the login of one
cluster is never sent to another.

The file is `contexts.json` in $XDG_CONFIG_HOME/chronik, by default ~/.config/chronik. It is replaced as a whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chronik.cli.errors import CommandFailed, Misused

CONTEXT: Final = "CHRONIK_CONTEXT"
BOOTSTRAP: Final = "CHRONIK_BOOTSTRAP"
COMMAND_CONFIG: Final = "CHRONIK_COMMAND_CONFIG"
BOOTSTRAP_OPTIONS: Final = ("--bootstrap", "--bootstrap-server", "--bootstrap-servers")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Context:
    bootstrap: str
    command_config: str | None = None  # an absolute path


@dataclass(slots=True)
class Contexts:
    """`current` is used where no other context is named."""

    by_name: dict[str, Context] = field(default_factory=dict)
    current: str | None = None

    @classmethod
    def load(cls) -> Contexts:
        path = contexts_path()
        try:
            document = json.loads(path.read_text())
            saved = {
                str(name): Context(str(each["bootstrap"]), each.get("command_config"))
                for name, each in document["contexts"].items()
            }
            return cls(saved, document.get("current"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            raise CommandFailed(
                f"cannot read the saved contexts in {path}: {fault}; correct or remove the file"
            ) from fault

    def save(self) -> None:
        path = contexts_path()
        contexts = {
            name: {"bootstrap": each.bootstrap, "command_config": each.command_config}
            for name, each in sorted(self.by_name.items())
        }
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"current": self.current, "contexts": contexts}, indent=2) + "\n")
            partial.chmod(FILE_MODE)
            partial.replace(path)
        except OSError as fault:
            raise CommandFailed(f"cannot save contexts in {path}: {fault.strerror}") from fault
        finally:
            partial.unlink(missing_ok=True)

    def named(self, name: str) -> Context:
        found = self.by_name.get(name)
        if found is not None:
            return found
        from difflib import get_close_matches

        near = get_close_matches(name, self.by_name, 1)
        known = f"did you mean {near[0]!r}?" if near else f"saved contexts: {', '.join(sorted(self.by_name)) or 'none'}"
        raise Misused(f"context {name!r} does not exist; {known}")


def contexts_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(home) / "chronik" / "contexts.json"


def apply_context(words: Sequence[str], environment: MutableMapping[str, str]) -> list[str]:
    """The words without --context. Puts what the chosen context says into `environment`, where options look.

    Afterwards CHRONIK_CONTEXT is set if and only if a context applies.
    """
    rest, chosen = _taken_out(words)
    has_bootstrap = any(word.partition("=")[0] in BOOTSTRAP_OPTIONS for word in rest) or BOOTSTRAP in environment
    if chosen is not None and has_bootstrap:
        raise Misused("--context and --bootstrap (or CHRONIK_BOOTSTRAP) exclude each other: choose one")
    if has_bootstrap:
        environment.pop(CONTEXT, None)
        return rest
    if not rest or rest[0].startswith("-") or rest[0] == "context":  # help and contexts work with a damaged file
        return rest
    saved = Contexts.load()
    name = chosen or environment.get(CONTEXT) or saved.current
    if name is None:
        return rest
    context = saved.named(name)
    environment[BOOTSTRAP] = context.bootstrap
    environment[CONTEXT] = name
    if context.command_config is not None:
        environment.setdefault(COMMAND_CONFIG, context.command_config)
    return rest


def _taken_out(words: Sequence[str]) -> tuple[list[str], str | None]:
    rest: list[str] = []
    chosen: str | None = None
    given = iter(words)
    for word in given:
        if word == "--":
            return [*rest, word, *given], chosen
        option, has_value, value = word.partition("=")
        if option == "--context":
            chosen = value if has_value else next(given, "")
            if not chosen:
                raise Misused("--context needs a name: see `chronik context list`")
        else:
            rest.append(word)
    return rest, chosen
