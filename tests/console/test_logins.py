"""Logins over TLS by the users of a cluster with access rules: no endpoint tells a user what the brokers would not."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from chronik.client import Producer, TopicPartition, connect
from chronik.client.admin import offsets, topics
from chronik.console.app import load_routes
from chronik.testing import Cluster
from tests.house.repository import SOURCE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-logins")]

HIDDEN = "hidden"  # every name that bob may not see contains it
GROUP = f"{HIDDEN}@open"  # and one that looks like a node's series of a group that he may see
EVENT = {
    "kind": "batch",
    "pipeline": f"{HIDDEN}-shop",
    "flow": "clean",
    "run_id": "r",
    "time_ms": 1_763_543_642_374,
    "reads": [f"topic {HIDDEN}-orders"],
    "writes": f"table /t/{HIDDEN}",
}
PATHS = {
    "{topic}": ("open", f"{HIDDEN}-orders", f"{HIDDEN}-orders.dlq", "__chronik_pipeline_events"),
    "{group}": ("open", f"{HIDDEN}-group", GROUP),
    "{pipeline}": (f"{HIDDEN}-shop",),
    "{table}": (HIDDEN, "orders"),
    "{partition}": ("0",),
    "{offset}": ("0",),
    "{id}": ("1",),
}


@dataclass
class Browser:
    port: int
    authority: Path
    cookie: str = ""
    cookies: list[str] = field(default_factory=list)

    def request(self, method: str, path: str, document: Any = None, **headers: str) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        given = {"Cookie": self.cookie, **headers}
        if method == "POST":
            given |= {"Content-Type": "application/json", "X-Chronik-Console": "1"}
        connection.request(method, f"/api/v1{path}", json.dumps(document or {}) if method == "POST" else None, given)
        answer = connection.getresponse()
        if (kept := answer.getheader("Set-Cookie")) is not None:
            self.cookies.append(kept)
            self.cookie = kept.partition(";")[0]
        is_stream = answer.headers.get_content_type() == "text/event-stream"
        body = b"".join(answer.readline() for _ in range(9)) if is_stream else answer.read()
        connection.close()
        return answer.status, body

    def get(self, path: str) -> Any:
        status, body = self.request("GET", path)
        assert status == 200, body
        return json.loads(body)

    def code(self, method: str, path: str, document: Any = None) -> str | None:
        _, body = self.request(method, path, document)
        error = json.loads(body).get("error")
        return None if error is None else str(error["code"])

    def sign_in(self, user: str, password: str) -> Browser:
        status, body = self.request("POST", "/session", {"user": user, "password": password})
        assert status == 200, body
        return self


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(secure=True, settings={"chronik.admin.listener": "127.0.0.1:0"}, in_process=False) as made:
        made.add_user("bob")
        made.allow("bob", "read", "describe", topic="open")
        made.allow("bob", "read", "describe", group="open")
        asyncio.run(fill(made))
        yield made


async def fill(cluster: Cluster) -> None:
    names = ["open", f"{HIDDEN}-orders", f"{HIDDEN}-orders.dlq", "open.dlq", "__chronik_pipeline_events"]
    async with connect(cluster.bootstrap, properties=str(cluster.properties_file("admin"))) as client:
        await topics.create(client, [topics.NewTopic(name, 1, 1) for name in names])
        async with Producer(client) as producer:
            for name in names:
                for _ in range(1_100):
                    value = EVENT if name.startswith("__") else {"of": name}
                    await producer.send(name, json.dumps(value).encode(), partition=0)
        for group in ("open", f"{HIDDEN}-group", GROUP):
            at = {TopicPartition(name, 0): offsets.Committed(0, -1, "") for name in names[:2]}
            await offsets.commit(client, group, at)


@pytest.fixture(scope="module")
def console(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """By the user `admin`, who sees everything; a folder of tables is beside it."""
    store = str(cluster.data / "security" / "node-1.pem")
    command = [sys.executable, "-m", "chronik.cli", "console", "--port", "0", "--bootstrap", cluster.bootstrap]
    command += ["--login", "--allow-changes", "--tls-certificate", store, "--tls-key", store]
    command += ["--command-config", str(cluster.properties_file("admin"))]
    folder = tmp_path_factory.mktemp("console")
    (folder / "chronik-storage" / "tables" / HIDDEN / "_delta_log").mkdir(parents=True)
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(SOURCE)}, cwd=folder, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        try:
            port = urlsplit(run.stdout.readline().split()[1]).port
            assert port is not None
            made = Browser(port, cluster.security.ca_file)
            admin = Browser(port, cluster.security.ca_file).sign_in("admin", cluster.security.passwords["admin"])
            while not admin.get("/groups?search=hidden")["groups"][0]["lag"]:  # until the console has looked at all
                time.sleep(0.2)
            while admin.get(f"/topics?search={HIDDEN}")["topics"][0]["records"] is None:
                time.sleep(0.2)
            admin.request("POST", "/topics", {"name": f"{HIDDEN}-late"})
            while f"{HIDDEN}-late" not in json.dumps(admin.get("/events")):
                time.sleep(0.2)
            yield made
        finally:
            run.terminate()
            run.wait()


@pytest.fixture(scope="module")
def admin(cluster: Cluster, console: Browser) -> Browser:
    return Browser(console.port, console.authority).sign_in("admin", cluster.security.passwords["admin"])


@pytest.fixture(scope="module")
def bob(cluster: Cluster, console: Browser, admin: Browser) -> Browser:
    """After admin has filled every cache."""
    return Browser(console.port, console.authority).sign_in("bob", cluster.security.passwords["bob"])


def paths() -> list[str]:
    found = []
    for route in load_routes():
        if route.method == "GET":
            made = [f"{route.path}{'?seconds=1' * route.path.endswith('/why')}"]
            for name, values in PATHS.items():
                made = [each.replace(name, quote(value, safe="")) for each in made for value in values]
            found += list(dict.fromkeys(made))
    series = [f"lag:{HIDDEN}-group", f"lag:{GROUP}", f"messages_in_per_s/{HIDDEN}-orders"]
    return [
        *found,
        f"/search?q={HIDDEN}",
        "/topics?internal=1",
        f"/metrics?{'&'.join(f'series={quote(each)}' for each in series)}",
    ]


SLOW = ("/tail", "/why", "/doctor", "/stream")


@pytest.mark.parametrize(
    "path", [pytest.param(each, marks=[pytest.mark.long] * any(word in each for word in SLOW)) for each in paths()]
)
def test_no_answer_names_what_the_user_may_not_see(admin: Browser, bob: Browser, path: str) -> None:
    admin.request("GET", path)
    status, body = bob.request("GET", path)
    if path == "/activity":  # it names what bob himself asked for
        assert {each["user"] for each in json.loads(body)["activity"]} == {"bob"}
        return
    asked = [
        value for value in (*PATHS["{topic}"], *PATHS["{group}"]) if value in path or quote(value, safe="") in path
    ]
    for each in (*asked, HIDDEN if HIDDEN in path else "-"):
        body = body.replace(each.encode(), b"")
    assert HIDDEN.encode() not in body
    assert status < 500


def test_admin_sees_it(admin: Browser) -> None:
    """So the test above can fail."""
    for path in ("/overview", "/events", "/topics", "/groups", f"/search?q={HIDDEN}", "/pipelines", "/letters"):
        assert HIDDEN in json.dumps(admin.get(path)), path


def test_series_of_others_are_empty(admin: Browser, bob: Browser) -> None:
    for series in (f"lag:{GROUP}", f"messages_in_per_s/{HIDDEN}-orders"):
        path = f"/metrics?series={quote(series)}"
        assert any(each is not None for each in admin.get(path)["series"][series]), series
        assert not any(each is not None for each in bob.get(path)["series"][series]), series


def test_nodes_need_a_permission_on_the_cluster(admin: Browser, bob: Browser) -> None:
    assert admin.get("/nodes")["nodes"]
    assert bob.code("GET", "/nodes") == "FORBIDDEN"
    overview = bob.get("/overview")
    assert (overview["nodes"], overview["rates"]["messages_in_per_s"]) == ([], None)
    assert overview["cluster"]["topics"] == 1


@pytest.mark.parametrize("path", ["", "/why?seconds=1", "/history"])
def test_a_hidden_group_is_forbidden_and_not_unreachable(bob: Browser, path: str) -> None:
    assert bob.code("GET", f"/groups/{HIDDEN}-group{path}") == "FORBIDDEN"


def test_sql_is_asked_as_the_user(admin: Browser, bob: Browser) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("deltalake")
    for who, topic, code in (
        (admin, f"{HIDDEN}-orders", None),
        (bob, "open", None),
        (bob, f"{HIDDEN}-orders", "BAD_QUERY"),
    ):
        assert who.code("POST", "/sql", {"id": "q", "query": f'SELECT count(*) FROM "{topic}"'}) == code


CHANGES = [
    ("/topics", {"name": "mine"}),
    ("/topics/open/delete", {}),
    ("/topics/open/configs", {"set": {"retention.ms": "1"}}),
    ("/topics/open/partitions", {"count": 9}),
    ("/topics/open/records", {"value": {"text": "x"}}),
    (f"/topics/{HIDDEN}-orders/resend", {"records": [{"partition": 0, "offset": 0}], "to": "open"}),
    ("/groups/open/delete", {}),
    (f"/groups/{HIDDEN}-group/reset", {"to": "latest"}),
    ("/nodes/rebalance", {}),
    (f"/letters/{HIDDEN}-orders.dlq/replay", {"records": [{"partition": 0, "offset": 0}]}),
]


@pytest.mark.parametrize(("path", "body"), CHANGES)
@pytest.mark.parametrize("is_dry", [False, True])
def test_changes_are_made_as_the_user(bob: Browser, path: str, body: Any, is_dry: bool) -> None:
    status, answer = bob.request("POST", path, {**body, "dry_run": is_dry})
    told = json.loads(answer)
    if is_dry and status == 200:  # a plan from what the user may see
        assert not told["done"]
        assert HIDDEN not in json.dumps(told).replace(f"{HIDDEN}-orders", "").replace(f"{HIDDEN}-group", "")
    elif path != "/nodes/rebalance":
        assert told["error"]["code"] in ("FORBIDDEN", "REFUSED", "TOPIC_NOT_FOUND"), told


def test_activity_is_each_users_own(admin: Browser, bob: Browser) -> None:
    assert {each["user"] for each in bob.get("/activity?limit=1")["activity"]} == {"bob"}
    admin.request("POST", "/topics", {"name": "x", "dry_run": True})
    assert {each["user"] for each in bob.get("/activity?limit=1")["activity"]} == {"bob"}


def test_a_login_makes_a_session_of_its_own(cluster: Cluster, console: Browser) -> None:
    """Neither a cookie that somebody put there nor an older session is taken over."""
    browser = Browser(console.port, console.authority, cookie=f"__Host-chronik_console_{console.port}=planted")
    passwords = cluster.security.passwords
    first = browser.sign_in("bob", passwords["bob"]).cookie
    assert "planted" not in first
    second = browser.sign_in("admin", passwords["admin"]).cookie
    assert first != second
    assert {"Secure", "HttpOnly", "SameSite=strict", "Path=/"} <= set(browser.cookies[0].split("; "))
    browser.cookie = first
    assert browser.code("GET", "/session") == "SIGNED_OUT"


def test_a_wrong_password_says_no_more_than_a_wrong_user(console: Browser) -> None:
    """And a login that succeeds forgives no failures of before: each user could otherwise guess at the others."""
    answers = [console.request("POST", "/session", {"user": each, "password": "x"})[1] for each in ("bob", "nobody")]
    assert answers[0] == answers[1]
