"""From a frame to the handler of its API and version, and from the response to the parts of a frame.

Nothing here waits. A frame that Kafka's protocol has no answer for (unknown key, unsupported version, malformed body)
raises Unanswerable: Kafka closes such connections, and so do we.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from struct import Struct as Packing
from struct import error as struct_error
from typing import TYPE_CHECKING, Any

from chronik.broker.api import Api, Later
from chronik.broker.context import Context
from chronik.broker.errors import Unanswerable
from chronik.broker.limits import REQUEST_OBJECT_BYTES_MAX
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.errors import Malformed
from chronik.wire.framing import SCRATCH_BYTES
from chronik.wire.notation import Struct
from chronik.wire.primitives import TAGS_MAX, Refused, read_varint

if TYPE_CHECKING:
    from chronik.broker.connection import Connection
    from chronik.broker.metrics import Histogram, Metrics
    from chronik.broker.node import Node
    from chronik.runtime.interfaces import Clock

API_VERSIONS_KEY = 18
JOINED_BYTES_MAX = 4096  # up to here one copy is cheaper than a second buffer
_fixed_header = Packing(">hhih")  # api_key, api_version, correlation_id, length of client_id
_response_start = Packing(">ii").pack  # size, correlation_id
_response_start_flexible = Packing(">iiB").pack  # and an empty tag section

Parts = list[Any]
# None: nothing is sent (produce with acks=0). PartsLater: a future, and what turns it into parts.
PartsLater = tuple[asyncio.Future[Any], Callable[[asyncio.Future[Any]], Parts | None]]
Answer = Parts | None | PartsLater | Awaitable[Parts | None]


class Dispatcher:
    """One per node. Holds a table (key, version) -> everything needed to serve it, filled as versions are used."""

    def __init__(self, node: Node, apis: dict[int, Api], metrics: Metrics, clock: Clock) -> None:
        self._node = node
        self._apis = apis
        self._metrics = metrics
        self._now_ns = clock.monotonic_ns
        self._served: dict[tuple[int, int], _Served] = {}

    def answer(self, frame: memoryview, connection: Connection) -> Answer:
        try:
            key, version, correlation_id, client_id_size = _fixed_header.unpack_from(frame)
        except struct_error:
            raise Unanswerable(f"a request of {len(frame)} bytes is shorter than any header") from None
        served = self._served.get((key, version)) or self._serve(key, version)
        at = _fixed_header.size
        client_id = None
        if client_id_size >= 0:
            try:
                client_id = str(frame[at : at + client_id_size], "utf-8")
            except UnicodeDecodeError:
                raise Unanswerable(f"the client id of a {served.api.name} request is not UTF-8") from None
            at += client_id_size
        try:
            if served.request_is_flexible:
                at = at + 1 if not frame[at] else _skip_tags(frame, at)
            if len(frame) <= SCRATCH_BYTES:
                request, _ = served.decode(frame, at)
            else:
                request, _ = served.decode(frame, at, REQUEST_OBJECT_BYTES_MAX)
        except (Malformed, Refused, IndexError) as fault:
            raise Unanswerable(str(fault) or "malformed request header") from fault
        context = Context(self._node, connection, version, client_id)
        since_ns = connection.last_request_ns
        response = served.api.handle(request, context)
        if type(response) is Later:  # first: what most requests are answered with, and the cheapest check
            return response.future, partial(served.settled, response.respond, correlation_id, since_ns)
        if response is None or isinstance(response, (bytes, Struct)):
            return served.parts(response, correlation_id, since_ns)
        if isinstance(response, asyncio.Future):
            return response, partial(served.settled, asyncio.Future.result, correlation_id, since_ns)
        return _later(served, response, correlation_id, since_ns)

    def _serve(self, key: int, version: int) -> _Served:
        api = self._apis.get(key)
        if api is None:
            raise Unanswerable(f"API key {key} is not served")
        if version not in api.versions:
            if key != API_VERSIONS_KEY:
                raise Unanswerable(f"{api.name} v{version} is not served, only {api.versions}")
            # A client that asks too new is answered in v0, so that it learns what there is.
            return _Served(api, 0, self._metrics.request(api.name), self._now_ns, unsupported=True)
        timing = self._metrics.request(api.name)
        served = self._served[key, version] = _Served(api, version, timing, self._now_ns)
        return served


class _Served:
    """One API at one version."""

    __slots__ = ("api", "decode", "encode", "now_ns", "request_is_flexible", "response_is_flexible", "timing")

    def __init__(
        self, api: Api, version: int, timing: Histogram, now_ns: Callable[[], int], *, unsupported: bool = False
    ) -> None:
        self.api = api
        self.timing, self.now_ns = timing, now_ns
        self.request_is_flexible = version in api.request.flexible
        self.response_is_flexible = version in api.response.flexible and api.key != API_VERSIONS_KEY
        self.decode: Any = _decode_nothing if unsupported else decoder_of(api.request, version)
        self.encode = encoder_of(api.response, version)

    def settled(
        self, respond: Callable[[Any], Any], correlation_id: int, since_ns: int, future: asyncio.Future[Any]
    ) -> Parts | None:
        return self.parts(respond(future), correlation_id, since_ns)

    def parts(self, response: Any, correlation_id: int, since_ns: int) -> Parts | None:
        """The answer's bytes. Every request that gets this far is counted here, once."""
        if response is None:
            self.timing.took(self.now_ns() - since_ns)
            return None
        if type(response) is bytes:
            start = self._start(len(response), correlation_id)
            parts = [start + response] if len(response) <= JOINED_BYTES_MAX else [start, response]
        else:
            parts = [b""]
            self.encode(response, parts)
            parts[0] = self._start(sum(map(len, parts)), correlation_id)
        self.timing.took(self.now_ns() - since_ns)
        return parts

    def _start(self, body_bytes: int, correlation_id: int) -> bytes:
        if self.response_is_flexible:
            return _response_start_flexible(body_bytes + 5, correlation_id, 0)
        return _response_start(body_bytes + 4, correlation_id)


def _decode_nothing(frame: memoryview, at: int, budget: int = 0) -> tuple[None, int]:
    return None, at


async def _later(served: _Served, response: Awaitable[Any], correlation_id: int, since_ns: int) -> Parts | None:
    return served.parts(await response, correlation_id, since_ns)


def _skip_tags(frame: memoryview, at: int) -> int:
    count, at = read_varint(frame, at)
    if count > TAGS_MAX:  # two bytes each: a large frame of them would keep the loop busy for seconds
        raise Refused(f"{count} header tags, at most {TAGS_MAX} are allowed")
    for _ in range(count):
        _, at = read_varint(frame, at)
        size_bytes, at = read_varint(frame, at)
        at += size_bytes
        if at > len(frame):
            raise Refused("header tags reach past the frame")
    return at
