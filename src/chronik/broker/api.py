"""How a handler declares the API that it serves and the permissions that it needs. ApiVersions and the table of
permissions are derived from these declarations alone.

    @api(ListOffsetsRequest, ListOffsetsResponse, needs=(DESCRIBE.on(TOPIC),))
    def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse: ...

A handler returns the response, or its body as encoded bytes. A handler that only waits returns a future or `Later`, for
which no task is created; one that has more to do returns a coroutine; one that may take long returns a generator of
pieces (`runtime.pieces`) with any of these as its result. None means that no response is sent. A handler never writes
to the connection.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chronik.broker.permissions import Need
from chronik.runtime.pieces import Work
from chronik.wire.notation import Request, Response, Versions

if TYPE_CHECKING:
    from chronik.broker.context import Context

Q = TypeVar("Q", bound=Request)
Handler = Callable[[Q, "Context"], "Response | bytes | Later | Awaitable[Any] | Work[Any] | None"]


class Later(NamedTuple):
    """A response that is sent when `future` is done: `ready`, if it is given and the future has no error; otherwise the
    result of `respond` for the future."""

    future: asyncio.Future[Any]
    respond: Callable[[asyncio.Future[Any]], Response | bytes | None]
    ready: bytes | None = None

    def response(self) -> Response | bytes | None:
        """Call this once the future is done."""
        future, respond, ready = self
        return ready if ready is not None and future.exception() is None else respond(future)


@dataclass(frozen=True, slots=True)
class Api:
    key: int
    name: str  # Kafka's name, such as ListOffsets
    versions: Versions
    request: type[Request]
    response: type[Response]
    handle: Callable[[Any, Any], Any]
    file: str
    needs: tuple[Need, ...]  # all of them are required, except those with a condition


_served: dict[int, Api] = {}


def api(
    request: type[Q], response: type[Response], versions: str | None = None, *, needs: tuple[Need, ...]
) -> Callable[[Handler[Q]], Handler[Q]]:
    """Serves `request` in every version of its schema, or only in `versions`."""

    def register(handle: Handler[Q]) -> Handler[Q]:
        served = Versions.parse(versions) if versions else request.versions
        name = request.__name__.removesuffix("Request")
        _served[request.api_key] = Api(
            request.api_key, name, served, request, response, handle, handle.__module__, needs
        )
        return handle

    return register


@functools.cache
def served_apis() -> dict[int, Api]:
    """Every API in `broker/apis`, by key. Importing a file registers its API. Every new connection needs this list, so
    the folder is read only once."""
    from chronik.broker import apis

    for module in pkgutil.iter_modules(apis.__path__):
        importlib.import_module(f"{apis.__name__}.{module.name}")
    return dict(sorted(_served.items()))
