"""Runs the fenced `python` blocks of a page. A `text` block directly behind one is what it prints.

Blocks of a page run in their order and share their names, as if typed into `python -m asyncio`: `await` may stand at
the top level. Blocks that define a test are for pytest: `shown_tests` gives them.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.house.console_blocks import fits

_block = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    line: int  # of the page, from 1
    source: str
    printed: str | None  # None: anything

    @property
    def is_test(self) -> bool:
        return re.search(r"^(?:async )?def test_", self.source, re.MULTILINE) is not None


def blocks_of(page: str) -> list[Block]:
    return [Block(page.count("\n", 0, each.start(1)) + 1, each[1], each[2]) for each in _block.finditer(page)]


def run_blocks(page: str, replaced: Mapping[str, str], name: str) -> int:
    """Runs all blocks that are not tests; how many. `replaced` is as in `console_blocks.check`."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = [each for each in blocks_of(page) if not each.is_test]
    with asyncio.Runner() as runner:
        for block in found:
            source = "\n" * (block.line - 1) + block.source
            for text, real in replaced.items():
                source = source.replace(text, real)
            code = compile(source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                runner.run(_run(code, names))
            shown = printed.getvalue()
            for text, real in replaced.items():
                shown = shown.replace(real, text)
            if block.printed is not None:
                expected = tuple(block.printed.splitlines())
                assert fits(expected, shown), f"{name}, line {block.line}: it printed\n{shown}"
    return len(found)


async def _run(code: types.CodeType, names: dict[str, Any]) -> None:
    result = types.FunctionType(code, names)()
    if inspect.isawaitable(result):
        await result


def shown_tests(page: str) -> str:
    """A module with all blocks that are tests."""
    return "\n\n".join(each.source for each in blocks_of(page) if each.is_test)
