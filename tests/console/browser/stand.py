"""Three real nodes, a console beside them, and Chromium before it.

A page that was shown has settled. `Visit.close` fails if any of them asked another host, did what its content security
policy forbids, or raised an exception.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from chronik.testing.cluster import Cluster

try:
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:  # an environment that was made before it was locked
    sync_playwright = None  # type: ignore[assignment, unused-ignore]

WEB = Path(__file__).resolve().parents[3] / "src/chronik/console/web"
SETTLED_MS = 60_000
SETTLED = "() => document.querySelector('main h1') && !document.querySelector('main .loading')"
WATCH = (
    "document.addEventListener('securitypolicyviolation', event => console.error('CSP: ' + event.violatedDirective))"
)
TOKEN = "a-token-for-tests-only"


def skip_without_browser() -> None:
    """In CI a missing browser is a failure, because nothing else shows the pages."""
    why = ""
    if shutil.which("chromium") is None:
        why = "the pages of the console need Chromium: `make browser`"
    elif sync_playwright is None:
        why = "the pages of the console need playwright: `make setup`"
    elif not (WEB / "vendor/preact.js").exists():
        why = "the pages of the console need their libraries: `make web`"
    if why and os.environ.get("CI"):
        pytest.fail(why)
    if why:
        pytest.skip(why)


class Visit:
    """A browser at a console."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.base = address.partition("/?")[0]
        self.troubles: list[str] = []
        self._context = browser.new_context()
        self._context.add_init_script(WATCH)
        self._context.on("request", self._asked)
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(SETTLED_MS)
        self.page.on("pageerror", lambda error: self.troubles.append(f"an exception: {error}"))
        self.page.on("console", self._said)
        self.page.goto(address)
        self.settle()

    def show(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.settle()

    def settle(self) -> Page:
        self.page.wait_for_function(SETTLED)
        return self.page

    def close(self) -> None:
        self._context.close()
        assert self.troubles == []

    def _asked(self, request: object) -> None:
        url = request.url  # type: ignore[attr-defined]
        if not url.startswith((self.base, "blob:", "data:")):
            self.troubles.append(f"asked another host: {url}")

    def _said(self, message: object) -> None:
        text = message.text  # type: ignore[attr-defined]
        if "CSP: " in text or "Content Security Policy" in text:
            self.troubles.append(text)


@contextlib.contextmanager
def nodes() -> Iterator[Cluster]:
    with Cluster(nodes=3, in_process=False, settings={"chronik.admin.listener": "127.0.0.1:0"}) as cluster:
        yield cluster


@contextlib.contextmanager
def console(cluster: Cluster, *arguments: str) -> Iterator[str]:
    """The address that it prints."""
    command = [
        sys.executable,
        "-m",
        "chronik.cli",
        "console",
        "--port",
        "0",
        "--bootstrap",
        cluster.bootstrap,
        *arguments,
    ]
    environment = os.environ | {"CHRONIK_CONSOLE_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Playwright's loop runs until the end of it, so a process has one at a time."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    visiting = Visit(browser, address)
    yield visiting
    visiting.close()


def produce(cluster: Cluster, topic: str, records: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 20_000_000})
    for key, value in records:
        producer.produce(topic, value, key=key, headers=[("trace", b"\x00\xff")])
    assert producer.flush(60) == 0


def orders(count: int) -> list[tuple[bytes | None, bytes | None]]:
    values = [json.dumps({"order_id": number, "city": "Köln"}, ensure_ascii=False) for number in range(count)]
    return [(str(number % 7).encode(), value.encode()) for number, value in enumerate(values)]
