"""A console in a process of its own, as a script uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from tests.house.repository import SOURCE

TOKEN = "a-token-for-scripts"
TIMEOUT_S = 60


@dataclass(frozen=True)
class Served:
    host: str
    port: int
    pid: int
    url: str  # as it was printed

    def request(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        with self.opened(method, path, document) as response:
            body = response.read()
            is_json = response.headers.get_content_type() == "application/json"
            return response.status, json.loads(body) if is_json else body

    @contextmanager
    def opened(self, method: str, path: str, document: Any = None) -> Iterator[HTTPResponse]:
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = None
        if method == "POST":
            headers |= {"Content-Type": "application/json", "X-Chronik-Console": "1"}
            body = json.dumps(document or {})
        connection.request(method, f"/api/v1{path}", body, headers)
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, document = self.request("GET", path)
        assert status == 200, document
        return document

    def post(self, path: str, document: Any = None) -> Any:
        status, answer = self.request("POST", path, document)
        assert status == 200, answer
        return answer

    def error(self, method: str, path: str, document: Any = None) -> str:
        status, answer = self.request(method, path, document)
        assert status >= 400, answer
        return str(answer["error"]["code"])

    def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """The first answer for which something holds; the test's own time limit ends the wait."""
        while True:
            document = self.get(path)
            if holds(document):
                return document
            time.sleep(0.1)

    def events(self, path: str, count: int) -> list[tuple[str, Any]]:
        """The first of a stream, by name and data."""
        found: list[tuple[str, Any]] = []
        with self.opened("GET", path) as response:
            name = ""
            while len(found) < count:
                line = response.readline().decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    found.append((name, json.loads(line.removeprefix("data: "))))
        return found


@contextmanager
def serving(bootstrap: str, *words: str) -> Iterator[Served]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "CHRONIK_CONSOLE_TOKEN": TOKEN}
    command = [sys.executable, "-m", "chronik.cli", "console", "--port", "0", "--bootstrap", bootstrap, *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().split()[1]
            at = urlsplit(url)
            assert at.hostname is not None
            assert at.port is not None
            yield Served(at.hostname, at.port, process.pid, url)
        finally:
            process.terminate()
            process.wait()
