"""Finds the log lines of the package in its source, for docs/reference/log-lines.md. It runs no code of the package.

A log line is a call of a logger with a literal text; `lines` refuses any other text. Fields of a text are shown as `…`.
Lines that a node writes only at level DEBUG are left out. The words about each line are in `log_line_words`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from chronik.runtime import alarms
from log_line_words import ALARMS, WORDS

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "chronik"
LEVELS: Final = ("INFO", "WARNING", "ERROR", "CRITICAL")
LEVEL_OF: Final = {**{name.lower(): name for name in ("DEBUG", *LEVELS)}, "exception": "ERROR"}
FIELD: Final = "…"
# Loggers by the names that hold them.
HOLDERS: Final = ("log", "logger", "_logger")
_mentions = re.compile(rf"\b(?:logging|{'|'.join(HOLDERS)})\b")  # other modules hold no logger and give no level
_field = re.compile(r"%(?:\.\d)?[sdrg]")


class Line(NamedTuple):
    logger: str
    text: str


@cache
def lines() -> dict[Line, set[str]]:
    """Each log line, and the levels at which it is written; without those at DEBUG alone."""
    sources = {path: path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items() if _mentions.search(source)}
    given = _levels_given(tree for path, tree in trees.items() if "logging." in sources[path])
    loggers = {path: _logger_of(path, tree) for path, tree in trees.items()}
    lent = _lent(trees, loggers)
    found: dict[Line, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for function, call in _log_calls(tree):
            assert isinstance(call.func, ast.Attribute)
            text, levels = call.args[0], {LEVEL_OF.get(call.func.attr, "")}
            if call.func.attr == "log":
                text, levels = call.args[1], _levels(function) | given[function.name]
            where = f"{path.relative_to(SOURCE)}:{call.lineno}"
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                raise ValueError(f"{where}: write the text of the log line as a literal, with %s for its fields")
            names = lent[path.stem] if isinstance(call.func.value, ast.Attribute) else {loggers[path]}
            if not names:
                raise ValueError(f"{where}: no logger is known here: call logging.getLogger with a literal name")
            if told := levels & set(LEVELS):
                for name in names:
                    found[Line(name, _field.sub(FIELD, text.value))] |= told
    return dict(found)


def document() -> str:
    """docs/reference/log-lines.md."""
    found = lines()
    sections = []
    for logger in sorted({line.logger for line in found}):
        rows = [_row(line, found[line]) for line in sorted(found) if line.logger == logger]
        sections.append(f"## {logger}\n\n| level | line | meaning | what to do |\n|---|---|---|---|\n{''.join(rows)}\n")
    causes = "".join(f"| `{cause}` | {' | '.join(ALARMS[cause])} |\n" for cause in alarms.CAUSES)
    return (
        f"""\
# Log lines

*Made from the log calls of `chronik` and `tools/log_line_words.py` by `make docs`; do not edit.*

A node writes its log to standard error, one line per event: time, level, logger, text. `--log-format json` writes
objects. `--log-level` sets the level. These tables have every line of level INFO and above, by logger.
`{FIELD}` stands for a value.

What to do is empty where you need not do anything. A line of level ERROR or CRITICAL always needs you.

## Alarms

The logger `chronik.alarms` writes a line that begins with a cause. `/status` shows the alarm while the condition holds.
The text after the cause says where it happened and what to do.

| cause | meaning | what to do |
|---|---|---|
{causes}
{"".join(sections)}""".rstrip("\n")
        + "\n"
    )


def _row(line: Line, levels: set[str]) -> str:
    meaning, advice = WORDS[line.logger][line.text]
    told = ", ".join(sorted(levels, key=LEVELS.index))
    text = line.text.replace("`", "'").replace("|", "\\|")
    return f"| {told} | `{text}` | {meaning} | {advice} |\n"


def _log_calls(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]:
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    is_level = call.func.attr in LEVEL_OF or call.func.attr == "log"
                    if is_level and _last_name(call.func.value) in HOLDERS:
                        yield function, call


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _levels(node: ast.AST) -> set[str]:
    """The levels that are written out in it: logging.WARNING and so on."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and _last_name(each.value) == "logging" and each.attr in LEVELS
    }


def _levels_given(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """The levels that callers of a method pass, by the method's name."""
    given: dict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                for argument in (*call.args, *(each.value for each in call.keywords)):
                    given[call.func.attr] |= _levels(argument)
    return given


def _logger_of(path: Path, tree: ast.Module) -> str:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "getLogger":
            match call.args:
                case [ast.Constant(value=str(name))]:
                    return name
                case [ast.Name(id="__name__")]:
                    return ".".join(("chronik", *path.relative_to(SOURCE).with_suffix("").parts))
    return ""


def _lent(trees: dict[Path, ast.Module], loggers: dict[Path, str]) -> dict[str, set[str]]:
    """The loggers that modules lend to an object of another one, by that one's name: `Refusals(log)`."""
    lent: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for call in ast.walk(tree):
            match call:
                case ast.Call(func=ast.Name(id=borrower), args=[first, *_]) if _last_name(first) in HOLDERS:
                    lent[borrower.lower()].add(loggers[path])
    return lent
