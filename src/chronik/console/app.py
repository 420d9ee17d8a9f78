"""The ASGI application: what stands in front of every handler, and how answers and errors become responses.

In this order: Host, origin, path, session, method, header and body of a POST, parameters, permission to change, the
handler within its time. Pages and files need no session, since they hold no data. Every response has the headers of
`gate.SECURITY_HEADERS`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import pkgutil
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from chronik.client.errors import ClientError
from chronik.console import errors, gate
from chronik.console.activity import Activity
from chronik.console.calls import ROUTES, Call, Change, Route
from chronik.console.clients import Clients
from chronik.console.errors import ConsoleError
from chronik.console.observer import Observer
from chronik.console.parameters import Body, parsed
from chronik.console.sessions import SESSION_MS, Session, Sessions
from chronik.console.static import StaticFiles

if TYPE_CHECKING:
    from chronik.console.settings import ConsoleSettings
    from chronik.runtime.interfaces import Runtime

log = logging.getLogger("chronik.console")

API: Final = "/api/v1"
OPEN: Final = frozenset({("POST", "/session")})  # without a session
OPEN_BODY_BYTES_MAX: Final = 16 << 10  # of a request without a session
BODY_S: Final = 30.0  # to send one
CALLS_MAX: Final = 64  # that are being answered
EXPIRE_S: Final = 60

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Console:
    """All that lives as long as the process. `start` needs a running loop."""

    def __init__(self, runtime: Runtime, settings: ConsoleSettings, port: int) -> None:
        listening = settings.listening
        self.settings, self.port, self.runtime = settings, port, runtime
        self.gate = gate.Gate(listening.host, port, is_secure=listening.is_secure, names=listening.names)
        self.clients = Clients(runtime, settings)
        self.sessions = Sessions(secrets.token_bytes, self.clients.detach)
        self.script_session = Session(None, 0)
        self.observer = Observer(self.clients.own.cluster)
        self.activity = Activity()
        self.static = StaticFiles()
        self.extras: dict[str, Any] = {}  # what routes keep between calls, by their own name
        self.streams = self.calls = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_close: list[Callable[[], Awaitable[None]]] = []
        self._table = _Table()

    def start(self) -> None:
        for work in (self.observer.run(), self._expire()):
            self._tasks.add(asyncio.get_running_loop().create_task(work))

    def at_close(self, work: Callable[[], Awaitable[None]]) -> None:
        self._on_close.append(work)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for work in self._on_close:
            await work()
        await self.clients.close()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRE_S)
            self.sessions.expire(self.now_ms())

    def now_ms(self) -> int:
        return self.runtime.clock.wall_ms()

    def address(self, path: str = "/", token: str = "") -> str:
        listening = self.settings.listening
        host = listening.names[0] if listening.names else listening.host
        host = f"[{host}]" if ":" in host else host
        return f"{self.gate.scheme}://{host}:{self.port}{path}{f'?token={token}' if token else ''}"

    @property
    def cookie(self) -> str:
        """Cookies do not know ports: consoles of one machine must not overwrite each other's. With TLS, browsers take a
        cookie with this prefix from no page that came without, and from no other host of the domain."""
        prefix = "__Host-" if self.settings.listening.is_secure else ""
        return f"{prefix}chronik_console_{self.port}"

    # --- ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except ConsoleError as fault:
            response = document(fault.document(), fault.status)
        for name, value in gate.SECURITY_HEADERS.items():
            response.headers[name] = value
        if self.settings.listening.is_secure:
            response.headers["Strict-Transport-Security"] = gate.HSTS
        if "cache-control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        path = request.scope.get("raw_path", b"").decode("latin-1") or request.url.path
        is_api = path == "/api" or path.startswith("/api/")
        host = self.gate.require_host(request.headers.getlist("host"))
        self.gate.require_origin(host, request.headers, is_page=not is_api and request.method == "GET")
        if not is_api:
            return await self._page(request, path)
        try:
            return await self._api(request, path.removeprefix(API) if path.startswith(f"{API}/") else "")
        except ConsoleError:
            raise
        except ClientError as fault:
            made = errors.of(fault)
            raise self._no_controller() if made.code == "UNREACHABLE" else made from fault
        except TimeoutError as fault:
            raise self._no_controller() from fault
        except Exception as fault:
            log.exception("%s %s failed", request.method, path)
            raise ConsoleError("INTERNAL", "the console failed; its log says how") from fault

    def _no_controller(self) -> ConsoleError:
        """Why the cluster did not answer, as far as the last look shows."""
        snapshot = self.observer.snapshot
        if snapshot.survey is not None:
            return ConsoleError("NO_CONTROLLER", str(snapshot.survey), "chronik cluster status shows every node")
        if not snapshot.is_reached:
            return ConsoleError(
                "UNREACHABLE", f"no broker answers at {self.settings.bootstrap}", "is one running there?"
            )
        return ConsoleError("TIMED_OUT", "the cluster did not answer in time", "chronik doctor says what is wrong")

    async def _page(self, request: Request, path: str) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise ConsoleError("BAD_METHOD", f"{request.method} is not served here")
        token = request.query_params.get("token")
        if token is None:
            return await self.static.respond(path, request)
        response = RedirectResponse(_local(path), status_code=303)
        if self.settings.has_logins or request.method != "GET":
            return response
        secret = self.sessions.redeem(token, self.now_ms())
        if secret is None:
            self.note(request, "sign in", "refused")
        else:
            self.note(request, "sign in", "done")
            self.set_cookie(response, secret)
        return response

    def set_cookie(self, response: Response, secret: str) -> None:
        response.set_cookie(
            self.cookie,
            secret,
            max_age=SESSION_MS // 1_000,
            httponly=True,
            samesite="strict",
            secure=self.settings.listening.is_secure,
        )

    # --- the API

    async def _api(self, request: Request, path: str) -> Response:
        session = self._session(request)
        if session is None and (request.method, path) not in OPEN:
            mode = "login" if self.settings.has_logins else "token"
            hint = "log in" if mode == "login" else "open the address that the console printed when it started"
            raise ConsoleError("SIGNED_OUT", "there is no session", hint, mode=mode)
        route, names = self._table.find("GET" if request.method == "HEAD" else request.method, path)
        body = Body({})
        if route.method == "POST":
            gate.require_post(request.headers)
            body = Body(await _json(request, gate.BODY_BYTES_MAX if session else OPEN_BODY_BYTES_MAX))
        query = parsed(route.parameters, request.query_params.multi_items())
        call = Call(self, request, session or Session(None, 0), names, query, body)
        return await self._answer(call, route)

    async def _answer(self, call: Call, route: Route) -> Response:
        if route.is_change:
            call.is_dry = call.body.flag("dry_run")
            if not (call.is_dry or self.settings.allows_changes):
                raise ConsoleError("READ_ONLY", "this console is read-only", "start it with --allow-changes")
        if self.calls >= CALLS_MAX:
            raise ConsoleError("BUSY", f"{CALLS_MAX} requests are being answered already")
        self.calls += 1
        try:
            async with asyncio.timeout(route.limit_s):
                answer = await self._changed(call, route) if route.is_change else await route.handler(call)
        finally:
            self.calls -= 1
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, dict) and "missing" not in answer:
            answer["missing"] = call.missing_documents()
        return document(answer)

    async def _changed(self, call: Call, route: Route) -> dict[str, Any]:
        """Notes who did what, whatever comes of it."""
        name = route.path.rpartition("/")[2].strip("{}") if route.path.count("/") > 1 else "create"
        target = next(iter(call.path.values()), "")
        try:
            made: Change = await route.handler(call)
        except (ConsoleError, ClientError, TimeoutError) as fault:
            refused = isinstance(fault, ConsoleError) and fault.status < 500
            self.note(call.request, name, "refused" if refused else "failed", target, user=call.session.user)
            raise
        outcome = "planned" if call.is_dry else "done"
        self.note(call.request, made.action or name, outcome, made.target or target, made.command, call.session.user)
        return {"done": not call.is_dry, "command": made.command, "plan": made.plan, "result": made.result}

    def _session(self, request: Request) -> Session | None:
        token = self.settings.script_token
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if token and scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.encode()):
            self.script_session.used_ms = self.now_ms()
            return self.script_session
        secret = request.cookies.get(self.cookie)
        return None if secret is None else self.sessions.find(secret, self.now_ms())

    def note(
        self, request: Request, action: str, outcome: str, target: str = "", command: str = "", user: str | None = None
    ) -> None:
        address = request.client.host if request.client else ""
        self.activity.note(self.now_ms(), user, address, action, outcome, target, command)


def load_routes() -> list[Route]:
    """Of all modules of `routes`."""
    package = importlib.import_module("chronik.console.routes")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return ROUTES


class _Table:
    """Finds handlers by method and path. A name in a path may hold any character, also an encoded slash."""

    def __init__(self) -> None:
        self._routes = [(route, route.path.strip("/").split("/")) for route in load_routes()]

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        given = [unquote(each) for each in path.strip("/").split("/")]
        allowed = set()
        for route, pattern in self._routes:
            names = _matched(pattern, given)
            if names is None:
                continue
            if route.method == method:
                return route, names
            allowed.add(route.method)
        if allowed:
            raise ConsoleError("BAD_METHOD", f"{method} is not served here, only {', '.join(sorted(allowed))}")
        raise ConsoleError("NOT_FOUND", "there is no such path in the API", "docs/reference/console-api.md lists all")


def _matched(pattern: list[str], given: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(given):
        return None
    names = {}
    for wanted, found in zip(pattern, given, strict=True):
        if wanted.startswith("{"):
            if not found:
                return None
            names[wanted[1:-1]] = found
        elif wanted != found:
            return None
    return names


async def _json(request: Request, size_max: int) -> Any:
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > size_max:
                    raise ConsoleError("TOO_LARGE", f"a body has at most {size_max} bytes")
    except TimeoutError:
        raise ConsoleError("BAD_BODY", f"the body took longer than {BODY_S:g} s") from None
    except ClientDisconnect:
        raise ConsoleError("BAD_BODY", "the body ended early") from None
    try:
        found = json.loads(bytes(data) or b"{}")
        if b"\\ud" in data.lower():  # half a surrogate pair has no bytes, so nothing could be done with it
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as fault:
        raise ConsoleError("BAD_BODY", f"the body is not JSON: {fault}") from None
    return found


def document(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def _local(path: str) -> str:
    """A path of this console, whatever was asked for: `//host` would be another."""
    return "/" + path.lstrip("/\\")
