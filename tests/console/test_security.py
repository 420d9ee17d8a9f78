"""Twenty things that somebody might try against the console, each refused. No broker runs: nothing may get that far."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chronik.client.properties import ClientSecurity
from chronik.console import app as app_module
from chronik.console.app import API, Console, load_routes
from chronik.console.gate import BODY_BYTES_MAX, SECURITY_HEADERS
from chronik.console.queries import LINE_BYTES_MAX
from chronik.console.query_process import _tell_rows, cell
from chronik.console.server import bind
from chronik.console.sessions import SESSION_MS
from chronik.console.settings import BadConsoleSetting, ConsoleSettings, Listening
from chronik.console.static import StaticFiles
from chronik.runtime.real import real_runtime
from tests.console.asgi import POST, ask, post

SCRIPT = "0123456789abcdef"
ROUTES = load_routes()


def make(**more: Any) -> Console:
    settings = ConsoleSettings(bootstrap="127.0.0.1:1", **more)
    settings.check()
    return Console(real_runtime(), settings, 8080)


@pytest.fixture
def console() -> Console:
    return make()


@pytest.fixture
def signed_in(console: Console) -> Mapping[str, str]:
    """The headers of a browser that opened the printed address."""
    return {"cookie": ask(console, "GET", f"/?token={console.sessions.new_token()}").cookie}


# --- 1 to 4: who may call


@pytest.mark.parametrize("host", ["attacker.example:8080", "127.0.0.1:1", None])
def test_1_a_foreign_host_is_refused_on_every_path(console: Console, host: str | None) -> None:
    for path in ("/", "/static/app.js", f"{API}/session"):
        assert ask(console, "GET", path, host=host).code == "BAD_HOST"


def test_2_a_foreign_origin_is_refused_even_with_the_cookie(console: Console, signed_in: Mapping[str, str]) -> None:
    for headers in ({"origin": "http://attacker.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert ask(console, "GET", f"{API}/session", {**signed_in, **headers}).code == "BAD_ORIGIN"
        assert post(console, f"{API}/session/link", headers={**signed_in, **headers}).code == "BAD_ORIGIN"


def test_3_nothing_grants_another_origin_anything(console: Console, signed_in: Mapping[str, str]) -> None:
    preflight = ask(console, "OPTIONS", f"{API}/topics", {"origin": "http://attacker.example"})
    assert preflight.status >= 400
    for answer in (preflight, ask(console, "GET", f"{API}/session", signed_in)):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_4_every_endpoint_needs_a_session(console: Console, route: Any) -> None:
    """But the one that opens it."""
    path = f"{API}{route.path}".replace("{", "").replace("}", "")
    answer = ask(console, "GET", path) if route.method == "GET" else post(console, path)
    expected = "BAD_BODY" if route.path == "/session" and route.method == "POST" else "SIGNED_OUT"
    assert answer.code == expected


# --- 5 to 9: tokens, cookies, sessions


def test_5_a_token_works_once_and_does_not_stay_in_the_address(console: Console) -> None:
    token = console.sessions.new_token()
    first = ask(console, "GET", f"/topics?token={token}")
    assert (first.status, first.headers["location"]) == (303, "/topics")
    second = ask(console, "GET", f"/topics?token={token}")
    assert "set-cookie" not in second.headers
    assert token not in second.headers["location"]


def test_6_a_wrong_token_opens_nothing(console: Console) -> None:
    for token in ("", "0" * 64, console.sessions.new_token()[:-1]):
        assert "set-cookie" not in ask(console, "GET", f"/?token={token}").headers


def test_7_the_cookie_is_for_this_console_and_not_for_scripts(console: Console) -> None:
    answer = ask(console, "GET", f"/?token={console.sessions.new_token()}")
    kept, *attributes = answer.headers["set-cookie"].lower().split("; ")
    assert kept.startswith("chronik_console_8080=")
    assert {"httponly", "samesite=strict", "path=/"} <= set(attributes)
    assert not any(each.startswith("domain") for each in attributes)


def test_8_a_session_ends(console: Console, signed_in: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = console.now_ms()
    assert ask(console, "GET", f"{API}/session", signed_in).status == 200
    monkeypatch.setattr(Console, "now_ms", lambda self: now_ms + 2 * SESSION_MS)
    assert ask(console, "GET", f"{API}/session", signed_in).code == "SIGNED_OUT"


def test_9_signing_out_ends_the_session_here_and_not_only_in_the_browser(
    console: Console, signed_in: Mapping[str, str]
) -> None:
    assert post(console, f"{API}/session/end", headers=signed_in).status == 200
    assert ask(console, "GET", f"{API}/session", signed_in).code == "SIGNED_OUT"


# --- 10 to 12: what a POST must be


def test_10_a_form_of_another_page_cannot_post(console: Console, signed_in: Mapping[str, str]) -> None:
    for headers in ({"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
        assert ask(console, "POST", f"{API}/session/end", {**signed_in, **headers}, b"{}").code == "NOT_JSON"
    answer = ask(console, "POST", f"{API}/session/end", {**signed_in, "content-type": "application/json"}, b"{}")
    assert answer.code == "HEADER_MISSING"


def test_11_a_get_changes_nothing(console: Console, signed_in: Mapping[str, str]) -> None:
    """A link or an image must not be able to act."""
    for route in ROUTES:
        if route.method == "POST" and not any(each.path == route.path and each.method == "GET" for each in ROUTES):
            path = f"{API}{route.path}".replace("{", "").replace("}", "")
            assert ask(console, "GET", path, signed_in).code in ("BAD_METHOD", "NOT_FOUND", "PIPELINE_NOT_FOUND")


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"{", b"[]", b'"x"'])
def test_12_a_body_that_is_no_object_is_refused(console: Console, signed_in: Mapping[str, str], body: bytes) -> None:
    assert ask(console, "POST", f"{API}/session/end", {**POST, **signed_in}, body).code == "BAD_BODY"


def test_13_a_large_body_is_refused_before_it_is_parsed(console: Console, signed_in: Mapping[str, str]) -> None:
    body = b" " * (BODY_BYTES_MAX + 1)
    assert ask(console, "POST", f"{API}/session/end", {**POST, **signed_in}, body).code == "TOO_LARGE"


# --- 14 to 15: what may be changed


@pytest.mark.parametrize("route", [each for each in ROUTES if each.is_change], ids=lambda route: route.path)
def test_14_a_console_is_read_only_unless_it_was_told_otherwise(
    console: Console, signed_in: Mapping[str, str], route: Any
) -> None:
    path = f"{API}{route.path}".replace("{", "").replace("}", "")
    assert post(console, path, {"name": "x"}, signed_in).code == "READ_ONLY"


@pytest.mark.parametrize(
    ("listening", "more"),
    [
        (Listening("0.0.0.0"), {}),
        (Listening("192.0.2.1"), {}),
        (Listening("0.0.0.0"), {"has_logins": True}),
        (Listening("0.0.0.0", certificate=Path("c"), key=Path("k")), {}),
        (Listening(certificate=Path("c")), {}),
        (Listening(), {"has_logins": True}),
        (Listening(), {"script_token": "short"}),
    ],
)
def test_15_an_address_that_others_can_reach_needs_tls_and_logins(listening: Listening, more: Any) -> None:
    with pytest.raises(BadConsoleSetting):
        ConsoleSettings("127.0.0.1:1", listening, **more).check()


# --- 16 to 18: what is sent back


@pytest.mark.parametrize(
    "path", ["/", "/topics/x", "/static/nothing.js", f"{API}/session", f"{API}/nowhere", "/?token=x"]
)
def test_16_every_answer_has_the_security_headers(console: Console, path: str) -> None:
    answer = ask(console, "GET", path)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name.lower()] == value
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("path", ["//attacker.example", "/\\attacker.example", "///attacker.example/x"])
def test_17_signing_in_leads_nowhere_else(console: Console, path: str) -> None:
    location = ask(console, "GET", f"{path}?token={console.sessions.new_token()}").headers["location"]
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "..\\app.py", "%00", "index.html/../../app.py"]
)
def test_18_no_path_leads_out_of_the_folder_of_files(console: Console, tmp_path: Path, name: str) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "index.html").write_text("page")
    (tmp_path / "app.py").write_text("secret")
    console.static = StaticFiles(tmp_path / "web")
    assert ask(console, "GET", f"/static/{name}").code == "NOT_FOUND"
    assert ask(console, "GET", "/static/index.html").body == b"page"


# --- 19 to 20: scripts, and what an error tells


def test_19_a_script_needs_the_token_that_the_console_was_given(console: Console) -> None:
    for header in ("Bearer ", f"Bearer {SCRIPT}", "Bearer None", f"Basic {SCRIPT}"):
        assert ask(console, "GET", f"{API}/session", {"authorization": header}).code == "SIGNED_OUT"
    scripted = make(script_token=SCRIPT)
    assert ask(scripted, "GET", f"{API}/session", {"authorization": f"Bearer {SCRIPT}"}).status == 200
    assert ask(scripted, "GET", f"{API}/session", {"authorization": f"Bearer {SCRIPT}x"}).code == "SIGNED_OUT"


def test_20_an_error_tells_nothing_of_the_machine(
    console: Console, signed_in: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, method: str, path: str) -> Any:
        raise RuntimeError("secret at /root/.ssh")

    monkeypatch.setattr(app_module._Table, "find", broken)
    answer = ask(console, "GET", f"{API}/session", signed_in)
    assert (answer.status, answer.code) == (500, "INTERNAL")
    assert b"secret" not in answer.body


# --- and besides


def test_no_secret_is_shown_by_a_settings_object() -> None:
    settings = ConsoleSettings("h:1", properties=(("sasl.jaas.config", "hunter2"),), script_token="hunter2-hunter2-")
    assert "hunter2" not in repr(settings)


def test_failed_logins_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the broker answers, so that many at once do not get around it."""
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": 'x required username="console" password="p";',
    }
    console = make(has_logins=True, security=ClientSecurity.of(properties))
    answers = [post(console, f"{API}/session", {"user": "ann", "password": "x"}) for _ in range(6)]
    assert [each.code for each in answers] == ["UNREACHABLE"] * 5 + ["BUSY"]
    assert ask(console, "GET", f"/?token={console.sessions.new_token()}").headers.get("set-cookie") is None


def test_a_session_says_how_to_sign_in(console: Console) -> None:
    assert ask(console, "GET", f"{API}/overview").json["error"]["mode"] == "token"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2**53 + 1, "9007199254740993"), (float("nan"), "nan"), (b"\xff", "\\xff"), ({1: (2, None)}, {"1": [2, None]})],
)
def test_cells_are_what_a_browser_reads_exactly(value: Any, shown: Any) -> None:
    assert json.loads(json.dumps(cell(value), allow_nan=False)) == shown


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadConsoleSetting, match="choose another --port"):
            bind(Listening(port=taken.getsockname()[1]))


def test_a_stranger_may_not_send_a_large_body() -> None:
    """A log-in has no session to be held to account, and a megabyte of brackets takes long to parse."""
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": 'x required username="console" password="p";',
    }
    console = make(has_logins=True, security=ClientSecurity.of(properties))
    assert post(console, f"{API}/session", {"user": "x" * 20_000, "password": "x"}).code == "TOO_LARGE"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/topics", b'{"name": "\\ud800", "dry_run": true}'),
        ("/topics/x/resend", b'{"records": [{"partition": 0, "offset": 100000000000000000000}], "dry_run": true}'),
        ("/topics/x/resend", b'{"records": [{"partition": true, "offset": 1}], "dry_run": true}'),
        ("/groups/x/reset", b'{"to": "time:999999999999999", "dry_run": true}'),
        ("/groups/x/reset", b'{"to": "latest", "partitions": [{"topic": "x", "partition": -1}], "dry_run": true}'),
        (
            "/groups/x/reset",
            b'{"to": "latest", "partitions": [{"topic": "x", "partition": 4294967296}], "dry_run": true}',
        ),
        ("/topics", b'{"name": "' + b"x" * 250 + b'", "dry_run": true}'),
        ("/topics", b'{"name": "x", "configs": {"a": "' + b"x" * 32_768 + b'"}, "dry_run": true}'),
        ("/groups/x/reset", b'{"to": "latest", "topics": ["' + b"x" * 32_768 + b'"], "dry_run": true}'),
        ("/topics", b'{"name": "x", "partitions": NaN, "dry_run": true}'),
        ("/topics", b'{"name": "x", "partitions": 1e400, "dry_run": true}'),
        ("/topics", b'{"name": "x", "partitions": ' + b"9" * 5_000 + b"}"),
    ],
)
def test_a_body_that_nothing_can_be_done_with_is_refused(
    console: Console, signed_in: Mapping[str, str], path: str, body: bytes
) -> None:
    assert ask(console, "POST", f"{API}{path}", {**POST, **signed_in}, body).code == "BAD_BODY"


@pytest.mark.parametrize("number", ["0" * 21 + "9" * 30, "9" * 20, "9" * 5_000, "-1", "NaN", "1e3", "%D9%A3"])
def test_a_number_that_is_no_offset_is_refused(console: Console, signed_in: Mapping[str, str], number: str) -> None:
    answer = ask(console, "GET", f"{API}/topics/x/records/0/{number}", signed_in)
    assert answer.code == "NOT_FOUND"


def test_names_that_no_file_and_no_topic_has_are_not_found(console: Console, signed_in: Mapping[str, str]) -> None:
    long = "a" * 5_000
    for path, code in ((f"/tables/{long}/versions", "TABLE_NOT_FOUND"), (f"/topics/{long}", "TOPIC_NOT_FOUND")):
        assert ask(console, "GET", f"{API}{path}", signed_in).code == code
    for name in ("%00", "..", ".", "%2e%2e", "..%2f..%2fetc", "/etc"):
        assert ask(console, "GET", f"{API}/tables/{name}/versions", signed_in).status == 404


def test_a_cookie_with_tls_cannot_be_planted() -> None:
    settings = ConsoleSettings("h:1", Listening(certificate=Path("c"), key=Path("k")))
    assert Console(real_runtime(), settings, 8080).cookie == "__Host-chronik_console_8080"


def test_rows_are_told_in_lines_that_the_console_reads(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    _tell_rows(iter([("ü" * 65_000,)] * 1_000), 1_000)
    lines = capfdbinary.readouterr().out.splitlines()
    assert max(map(len, lines)) < LINE_BYTES_MAX // 16
    assert sum(len(json.loads(line).get("rows", ())) for line in lines) == 1_000
    _tell_rows(iter([(list(range(10_000_000)),)]), 1)
    assert b"too large" in capfdbinary.readouterr().out
