"""Requests to a console without a socket: what its handlers answer, headers and all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from chronik.console.app import Console

HOST = "127.0.0.1:8080"
POST = {"content-type": "application/json", "x-chronik-console": "1"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """Of the error; None without one."""
        error = self.json.get("error") if self.headers.get("content-type") == "application/json" else None
        return None if error is None else str(error["code"])

    @property
    def cookie(self) -> str:
        return self.headers["set-cookie"].partition(";")[0]


def ask(
    console: Console,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    host: str | None = HOST,
) -> Answer:
    path, _, query = target.partition("?")
    given = {**({"host": host} if host is not None else {}), **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
    }
    sent: list[Any] = []
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if pieces:
            return pieces.pop()
        return await asyncio.sleep(3_600)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(console(scope, receive, send))
    start = sent[0]
    return Answer(
        start["status"],
        {name.decode(): value.decode("latin-1") for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


def post(
    console: Console, path: str, document: Any = None, headers: Mapping[str, str] | None = None, **more: Any
) -> Answer:
    return ask(console, "POST", path, {**POST, **(headers or {})}, json.dumps(document or {}).encode(), **more)
