"""A node is built complete: code that has a node can use every part of it without checking whether it exists yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.repository import ROOT

BROKER = ROOT / "src/chronik/broker"
WHOLE = {"Node": "node.py", "NodeBase": "node_base.py", "Services": "services.py", "Lifecycle": "lifecycle.py"}
PROBES = ("hasattr", "getattr", "setattr", "delattr")


def class_named(name: str, source: str) -> ast.ClassDef:
    [found] = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef) and each.name == name]
    return found


def assigned(tree: ast.AST, owners: tuple[str, ...] = ("self",)) -> Iterator[str]:
    """Attributes that the code sets on one of these names, or on `self.NAME` or `self._NAME`."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
            continue
        owner = node.value
        name = owner.attr.lstrip("_") if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if name in owners:
            yield node.attr


def faults(name: str, source: str) -> list[str]:
    tree = class_named(name, source)
    is_dataclass = any("dataclass" in ast.unparse(each) for each in tree.decorator_list)
    declared = [each for each in tree.body if isinstance(each, ast.AnnAssign) and each.value is None]
    found = [f"{ast.unparse(each)} is declared only" for each in declared if not is_dataclass]
    methods = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    begun = {each for method in methods if method.name == "__init__" for each in assigned(method)}
    for method in methods:
        found += [f"{each} is set first in {method.name}" for each in assigned(method) if each not in begun]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PROBES:
            found.append(f"{ast.unparse(node)}")
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_every_attribute_is_set_by_the_constructor(name: str) -> None:
    """A part that appears later needs a question at each use, and the one use without it fails in production."""
    assert faults(name, (BROKER / WHOLE[name]).read_text("utf-8")) == []


def test_nobody_sets_an_attribute_of_a_node_from_outside() -> None:
    found = {
        path.name: names
        for path in sorted(BROKER.rglob("*.py"))
        if (names := list(assigned(ast.parse(path.read_text("utf-8")), ("node", "base"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "body",
    [
        "store: Store",
        "def __init__(self): pass\n    async def open(self): self.store = 1",
        "def __init__(self): self.a = 1\n    def is_open(self): return hasattr(self, 'a')",
        "def __init__(self): self.a = 1\n    def open(self): setattr(self, 'a', 1)",
    ],
)
def test_a_node_that_is_not_whole_is_noticed(body: str) -> None:
    assert faults("Node", f"class Node:\n    {body}\n")
