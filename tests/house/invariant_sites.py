"""Where product code checks an invariant at run time: calls of `check` and `broken` of `chronik.runtime.invariants`.

`python -m tests.house.invariant_sites` prints the last column of the table in docs/reference/invariants.md.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.house.repository import SOURCE

MODULE = "chronik.runtime.invariants"
NOT_PRODUCT = ("sim", "cli", "bench")  # programs that drive or measure the product
PROMISE = re.compile(r"(\d{1,2}) \S")


class Site(NamedTuple):
    module: str  # "raft/log"
    line: int
    promise: str | None  # None: it is no literal
    has_values: bool  # it names its subject
    is_constant: bool  # it is at the top level of a module, and compares constants

    @property
    def number(self) -> int | None:
        """Of the invariant; None if the promise does not begin with one."""
        found = PROMISE.match(self.promise or "")
        return int(found[1]) if found else None


def sites_in(module: str, source: str) -> Iterator[Site]:
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == MODULE
        for alias in node.names
    }
    top = {id(statement.value) for statement in tree.body if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        place = {"check": 1, "broken": 0}.get(names.get(node.func.id, ""))
        if place is not None:
            said = node.args[place] if len(node.args) > place else None
            promise = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else None
            yield Site(module, node.lineno, promise, bool(node.keywords), id(node) in top)


def product_sites() -> list[Site]:
    found: list[Site] = []
    for path in sorted((SOURCE / "chronik").rglob("*.py")):
        inside = path.relative_to(SOURCE / "chronik")
        if inside.parts[0] not in NOT_PRODUCT and str(inside) != "runtime/invariants.py":
            found += sites_in(inside.with_suffix("").as_posix(), path.read_text())
    return found


def modules_by_number(sites: list[Site]) -> dict[int, list[str]]:
    found: defaultdict[int, set[str]] = defaultdict(set)
    for site in sites:
        if site.number is not None:
            found[site.number].add(site.module)
    return {number: sorted(modules) for number, modules in sorted(found.items())}


if __name__ == "__main__":
    for number, modules in modules_by_number(product_sites()).items():
        print(number, ", ".join(f"`{module}`" for module in modules))
