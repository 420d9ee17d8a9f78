"""A tiny identity provider for tests: it publishes keys and gives tokens to clients that know a secret.

It runs in a thread, on a port of its own, with TLS if it gets a certificate. `asked` counts requests by path. A test
changes `keys`, `lifetime_s` or `answers`, which replaces what a path answers.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus

from tests.broker.sasl.tokens import key_set, token_of

CLIENT_ID, CLIENT_SECRET = "chronik client", "s%cr=t:ä"


class IdentityProvider:
    def __init__(self, certificate: Path | None = None, *, key: str = "ES256") -> None:
        self.key = key
        self.keys = key_set(key)
        self.lifetime_s = 3600
        self.subject = "alice"
        self.client_id, self.client_secret = CLIENT_ID, CLIENT_SECRET
        self.asked: Counter[str] = Counter()
        self.scopes: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}  # by path
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self) -> str:
        now_s = int(time.time())
        return token_of(now_s, key=self.key, sub=self.subject, exp=now_s + self.lifetime_s)

    def answer(self, path: str, authorization: str, body: str) -> tuple[int, dict[str, str], bytes]:
        self.asked[path] += 1
        if path in self.answers:
            return self.answers[path]
        if path == "/keys":
            return 200, {}, self.keys
        if path == "/token":
            form = parse_qs(body)
            kind, _, coded = authorization.partition(" ")
            pair = base64.b64decode(coded).decode().split(":", 1)
            # RFC 6749 has both parts form-encoded; not all clients do so.
            sent = (pair, [unquote_plus(each) for each in pair])
            if kind != "Basic" or [self.client_id, self.client_secret] not in sent:
                return 401, {}, b'{"error": "invalid_client"}'
            if form.get("grant_type") != ["client_credentials"]:
                return 400, {}, b'{"error": "unsupported_grant_type"}'
            self.scopes += form.get("scope", [])
            told = {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.lifetime_s}
            return 200, {}, json.dumps(told).encode()
        return 404, {}, b"not here"


def _handler(provider: IdentityProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

        def _answer(self, body: str) -> None:
            status, headers, data = provider.answer(self.path, self.headers.get("Authorization", ""), body)
            self.send_response(status)
            for name, text in (
                {"Content-Type": "application/json", "Content-Length": str(len(data))} | headers
            ).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gives it
            """No one reads it."""

    return Handler
