"""The client side of Kafka's protocol is written once, in `wire`; connections elsewhere only drive it.

Each row of `PARTS` is a part of the protocol and the modules in which it may stand. The server's side, which reads
requests and frames responses, has its own modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.repository import SOURCE

PARTS = {
    "cuts a stream into frames": {"wire.framing", "wire.peer", "wire.stop_and_wait", "broker.connection"},
    "writes or reads headers": {"wire.headers", "wire.calls"},
    "handles correlation ids": {"wire.headers", "wire.calls", "wire.peer", "wire.stop_and_wait", "broker.dispatch"},
    "agrees on versions": {"wire.peer"},
    "logs in": {"wire.peer"},
}
HEADERS = {"RequestHeader", "ResponseHeader", "request_header_version", "response_header_version"}
FRAMES = {"FrameReader", "pack_size"}


def parts_in(source: str) -> Iterator[str]:
    """Which parts of the protocol a module holds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if node.module == "chronik.wire.framing" and names & FRAMES:
                yield "cuts a stream into frames"
            if node.module == "chronik.wire.headers" and names & HEADERS:
                yield "writes or reads headers"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "ApiVersionsRequest":
                yield "agrees on versions"
            elif node.func.id in ("SaslHandshakeRequest", "SaslAuthenticateRequest"):
                yield "logs in"
        elif isinstance(node, ast.Name | ast.arg | ast.keyword | ast.Attribute):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None) or ""
            if name.strip("_").lower().startswith("correlation_id"):
                yield "handles correlation ids"


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("from chronik.wire.framing import FrameReader", "cuts a stream into frames"),
        ("from chronik.wire.framing import SIZE_BYTES, pack_size", "cuts a stream into frames"),
        ("from chronik.wire.headers import RequestHeader, ResponseHeader", "writes or reads headers"),
        ("def f(frame): self._correlation_id += 1", "handles correlation ids"),
        ("g(request, correlation_id=0)", "handles correlation ids"),
        ("def f(correlation_id): pass", "handles correlation ids"),
        ("request = ApiVersionsRequest(client_software_name='x')", "agrees on versions"),
        ("request = SaslHandshakeRequest(mechanism='PLAIN')", "logs in"),
    ],
)
def test_a_second_writing_of_the_protocol_would_be_noticed(source: str, part: str) -> None:
    """These lines are from connections that implemented the protocol themselves."""
    assert part in set(parts_in(source))


def test_the_client_side_of_the_protocol_is_written_once() -> None:
    """A bound, a fix or a login that is added to one of several copies is missing in the others."""
    found: dict[str, set[str]] = {part: set() for part in PARTS}
    for path in sorted((SOURCE / "chronik").rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE / "chronik").with_suffix("").parts)
        for part in parts_in(path.read_text()):
            found[part].add(module)
    assert {part: modules - PARTS[part] for part, modules in found.items() if modules - PARTS[part]} == {}


def test_the_modules_named_here_exist() -> None:
    """A row for a module that is gone would let a new one of that name in."""
    for modules in PARTS.values():
        for module in modules:
            assert (SOURCE / "chronik" / f"{module.replace('.', '/')}.py").exists(), module
