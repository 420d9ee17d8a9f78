"""Who is signed in, and signing in and out."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from chronik import __version__
from chronik.console.app import document
from chronik.console.calls import Call, ask, get
from chronik.console.errors import ConsoleError
from chronik.console.parameters import REQUIRED

SQL, TABLES, SPARK = ("duckdb", "pyarrow", "deltalake"), ("deltalake", "pyarrow"), ("pyspark",)


def has(packages: tuple[str, ...]) -> bool:
    return all(find_spec(package) is not None for package in packages)


def describe(call: Call) -> dict[str, Any]:
    console, session = call.console, call.session
    settings = console.settings
    return {
        "mode": "login" if settings.has_logins else "token",
        "user": session.user,
        "allows_changes": settings.allows_changes,
        "expires_at_ms": session.expires_ms,
        "console": __version__,
        "bootstrap": settings.bootstrap,
        "cluster_id": console.observer.snapshot.cluster_id,
        "secure": settings.listening.is_secure,
        "extras": {"sql": has(SQL), "tables": has(TABLES), "spark": has(SPARK)},
        "now_ms": console.now_ms(),
    }


@get("/session")
async def session(call: Call) -> dict[str, Any]:
    return describe(call)


@ask("/session")
async def log_in(call: Call) -> Any:
    console = call.console
    if not console.settings.has_logins:
        raise ConsoleError("BAD_BODY", "this console has no logins", "open the address that it printed when it started")
    user, password = call.body.text("user", REQUIRED), call.body.text("password", REQUIRED)
    call.body.done()
    address = call.request.client.host if call.request.client else ""
    now_ms = console.now_ms()
    if not console.sessions.may_try(address, now_ms):
        raise ConsoleError("BUSY", "too many failed logins", "wait a minute")
    console.sessions.note_failure(address, now_ms)  # before the answer: many at once must not count as none
    try:
        client = await console.clients.log_in(user, password)
    except ConsoleError:
        console.note(call.request, "sign in", "refused", user)
        raise
    console.sessions.forgive(address, now_ms)
    console.sessions.close(call.session)
    secret = console.sessions.open(user, now_ms)
    found = console.sessions.find(secret, now_ms)
    assert found is not None
    console.clients.attach(found, client)
    console.note(call.request, "sign in", "done", user, user=user)
    call.session = found
    response = document({**describe(call), "missing": []})
    console.set_cookie(response, secret)
    return response


@ask("/session/end")
async def log_out(call: Call) -> Any:
    call.body.done()
    call.console.sessions.close(call.session)
    call.console.note(call.request, "sign out", "done", user=call.session.user)
    response = document({"done": True, "missing": []})
    is_secure = call.console.settings.listening.is_secure
    response.delete_cookie(call.console.cookie, secure=is_secure, httponly=True, samesite="strict")
    return response


@ask("/session/link")
async def link(call: Call) -> dict[str, Any]:
    call.body.done()
    if call.console.settings.has_logins:
        raise ConsoleError("BAD_BODY", "this console has logins instead of links")
    return {"url": call.console.address("/", call.console.sessions.new_token())}
