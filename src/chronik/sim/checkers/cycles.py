"""Cycles in a graph of dependencies between transactions. Pure functions; edges carry the words that explain them.

Tarjan's algorithm finds the components, without recursion, because a history has thousands of transactions. Each
component is reported by one short cycle, which is enough to investigate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Edge(NamedTuple):
    source: str
    target: str
    kind: str
    words: str  # why the target depends on the source


Graph = Mapping[str, Sequence[Edge]]  # source: edges


def graph_of(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    """At most one edge of each kind between two transactions, the first one. Self-edges are not dependencies."""
    made: dict[str, dict[tuple[str, str], Edge]] = {}
    for edge in edges:
        if edge.source != edge.target:
            made.setdefault(edge.source, {}).setdefault((edge.target, edge.kind), edge)
    return {source: list(found.values()) for source, found in made.items()}


def cycles(graph: Graph) -> list[list[Edge]]:
    """A short cycle of each strongly connected component, as its edges."""
    return [_around(graph, component) for component in components(graph) if len(component) > 1]


def cycles_with(graph: Graph, kind: str) -> list[list[Edge]]:
    """Like `cycles`, for components that have a cycle through an edge of this kind."""
    found = []
    for component in components(graph):
        inside = (edge for node in sorted(component) for edge in graph.get(node, ()) if edge.target in component)
        edge = next((edge for edge in inside if edge.kind == kind), None)
        if edge is not None and len(component) > 1:
            found.append([edge, *_way(graph, edge.target, edge.source, component)])
    return found


def components(graph: Graph) -> Iterator[set[str]]:
    """The strongly connected components (Tarjan 1972), single transactions included."""
    numbers: dict[str, int] = {}  # discovery order
    lowest: dict[str, int] = {}  # the earliest one on the stack that can be reached
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in sorted(graph):
        if root in numbers:
            continue
        work: list[tuple[str, Iterator[Edge]]] = []
        _enter(root, graph, numbers, lowest, stack, on_stack, work)
        while work:
            node, edges = work[-1]
            edge = next(edges, None)
            if edge is not None:
                if edge.target not in numbers:
                    _enter(edge.target, graph, numbers, lowest, stack, on_stack, work)
                elif edge.target in on_stack:
                    lowest[node] = min(lowest[node], numbers[edge.target])
                continue
            work.pop()
            if work:
                lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
            if lowest[node] == numbers[node]:
                component: set[str] = set()
                while node not in component:
                    component.add(stack.pop())
                on_stack -= component
                yield component


def _enter(
    node: str,
    graph: Graph,
    numbers: dict[str, int],
    lowest: dict[str, int],
    stack: list[str],
    on_stack: set[str],
    work: list[tuple[str, Iterator[Edge]]],
) -> None:
    numbers[node] = lowest[node] = len(numbers)
    stack.append(node)
    on_stack.add(node)
    work.append((node, iter(graph.get(node, ()))))


def _around(graph: Graph, component: set[str]) -> list[Edge]:
    """The shortest cycle through the component's first transaction."""
    first = min(component)
    return _way(graph, first, first, component)


def _way(graph: Graph, start: str, end: str, within: set[str]) -> list[Edge]:
    """The shortest path of at least one edge. A strongly connected component always has one."""
    reached: dict[str, Edge] = {}
    queue = deque([start])
    while queue:
        for edge in graph.get(queue.popleft(), ()):
            if edge.target in within and edge.target not in reached:
                reached[edge.target] = edge
                queue.append(edge.target)
        if end in reached:
            break
    way = [reached[end]]
    while way[0].source != start:
        way.insert(0, reached[way[0].source])
    return way


def in_words(cycle: Sequence[Edge]) -> str:
    return "; ".join(edge.words for edge in cycle)
