"""What makes a module tidy, as functions from source text to complaints. Each complaint names the way out.

The rules guard what no linter knows: which layer may touch the machine, how long a module may be, what it must say of
itself. `test_tidy` applies them to the whole tree, and to small untidy modules to see that they bite.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

LINES_MAX = 600
VAGUE_NAMES = {"common", "helpers", "misc", "shared", "util", "utils"}

_CLOCK = "take the time from Clock of chronik.runtime.interfaces"
_DISK = "go through Disk of chronik.runtime.interfaces"
_NETWORK = "go through Network of chronik.runtime.interfaces"
_CHANCE = "draw from Randomness of chronik.runtime.interfaces"
_LANE = "give blocking work to a Lane of chronik.runtime.interfaces"
_PROGRAM = "leave it to a program (cli, bench, sim) and pass the result in"

# A whole node runs unchanged in the simulator, so below the programs only `runtime` may touch the machine.
BANNED_MODULES = {
    "time": _CLOCK,
    "random": _CHANCE,
    "secrets": _CHANCE,
    "socket": _NETWORK,
    "socketserver": _NETWORK,
    "select": _NETWORK,
    "selectors": _NETWORK,
    "threading": _LANE,
    "concurrent": _LANE,
    "queue": _LANE,
    "multiprocessing": _PROGRAM,
    "subprocess": _PROGRAM,
    "fcntl": _DISK,
    "glob": _DISK,
    "mmap": _DISK,
    "os": _DISK,
    "pathlib": _DISK,
    "shutil": _DISK,
    "tempfile": _DISK,
}
# By the end of the dotted name that is called.
BANNED_CALLS = {
    "open": _DISK,
    "hash": "it differs from process to process; use zlib.crc32 or a key that can be compared",
    "datetime.now": _CLOCK,
    "datetime.utcnow": _CLOCK,
    "date.today": _CLOCK,
    "uuid.uuid1": _CHANCE,
    "uuid.uuid4": _CHANCE,
    "uuid4": _CHANCE,
    "asyncio.to_thread": _LANE,
    "asyncio.open_connection": _NETWORK,
    "asyncio.start_server": _NETWORK,
    "create_connection": _NETWORK,
    "create_server": _NETWORK,
    "run_in_executor": _LANE,
}
# Methods whose own name is banned as a bare call only: `disk.open(...)` is the interface.
BARE_ONLY = {"open", "hash", "uuid4"}


def machine_calls(source: str) -> Iterator[str]:
    """Complaints about imports and calls that reach past `runtime`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _complain(node, alias.name.partition(".")[0], "import of {}", BANNED_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from _complain(node, (node.module or "").partition(".")[0], "import of {}", BANNED_MODULES)
        elif isinstance(node, ast.Call):
            yield from _complain(node, _called(node.func), "call of {}", BANNED_CALLS)


def _complain(node: ast.stmt | ast.expr, name: str, what: str, banned: dict[str, str]) -> Iterator[str]:
    if name in banned:
        yield f"line {node.lineno}: {what.format(name)}: {banned[name]}"


def _called(function: ast.expr) -> str:
    """The banned name that a call ends in, else nothing."""
    dotted = ast.unparse(function)
    for name in BANNED_CALLS:
        if dotted == name or (name not in BARE_ONLY and dotted.endswith(f".{name}")):
            return name
    return ""


def size(source: str) -> Iterator[str]:
    count = len(source.splitlines())
    if count > LINES_MAX:
        yield f"{count} lines, at most {LINES_MAX}: split it by its nouns, as DESIGN.md's file map does"


def introduction(source: str) -> Iterator[str]:
    """An empty module needs none: `__init__.py` is empty or says what the package offers."""
    tree = ast.parse(source)
    if tree.body and not ast.get_docstring(tree):
        yield "no docstring: say in its first lines what the module is for and what it never does"


def name(stem: str) -> Iterator[str]:
    if stem in VAGUE_NAMES:
        yield f"{stem} says nothing: name the module after the thing it holds"
