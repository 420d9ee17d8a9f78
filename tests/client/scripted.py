"""A broker with scripted responses: one function per request class, wire messages in and out.

A handler gets (request, version) and returns a response; an awaitable of one, to answer later while others wait behind
it; NO_ANSWER, to leave the client waiting; or HANG_UP. ApiVersions is answered from `versions`, and everything that
was asked is kept in `asked`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final

from chronik.wire.compiler import decoder_of, encode
from chronik.wire.framing import FrameReader, pack_size
from chronik.wire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from chronik.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.notation import Request, Response, Versions

NO_ANSWER: Final = object()
HANG_UP: Final = object()
UNSUPPORTED_VERSION: Final = 35
FRAME_BYTES_MAX: Final = 64 << 20

Handler = Callable[[Any, int], Any]


class ScriptedBroker:
    def __init__(self, handlers: dict[type[Request], Handler], *, versions: dict[int, str] | None = None) -> None:
        self.handlers = handlers
        self.asked: list[tuple[Request, int]] = []
        self.versions = {ApiVersionsRequest.api_key: ApiVersionsRequest.versions}
        self.versions |= {request.api_key: request.versions for request in handlers}
        self.versions |= {key: Versions.parse(text) for key, text in (versions or {}).items()}
        self.classes = {request.api_key: request for request in (*handlers, ApiVersionsRequest)}

    def asked_for(self, request: type[Request]) -> list[Any]:
        return [each for each, _ in self.asked if isinstance(each, request)]

    def __call__(self) -> ScriptedConnection:
        return ScriptedConnection(self)

    def answer(self, request: Request, version: int) -> Any:
        self.asked.append((request, version))
        if isinstance(request, ApiVersionsRequest) and ApiVersionsRequest not in self.handlers:
            return self.api_versions()
        return self.handlers[type(request)](request, version)

    def api_versions(self, error_code: int = 0) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=key, min_version=each.first, max_version=each.last)
            for key, each in sorted(self.versions.items())
        ]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys)


class ScriptedConnection:
    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._requests: asyncio.Queue[memoryview | None] = asyncio.Queue()

    def opened(self, send: Callable[[bytes], None], hang_up: Callable[[], None]) -> None:
        self._send, self._hang_up = send, hang_up
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    def received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._requests.put_nowait(frame)

    def closed(self) -> None:
        self._serving.cancel()

    async def _serve(self) -> None:
        """One request after the other, as Kafka does on one connection."""
        while True:
            frame = await self._requests.get()
            assert frame is not None
            key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
            request_class = self._broker.classes[key]
            if version not in self._broker.versions[key]:
                assert request_class is ApiVersionsRequest, f"{request_class.__name__} v{version} was not advertised"
                header, _ = decoder_of(RequestHeader, 1)(frame)
                self._reply(self._broker.api_versions(UNSUPPORTED_VERSION), 0, header.correlation_id)
                continue
            header, at = decoder_of(RequestHeader, request_header_version(request_class, version))(frame)
            request, _ = decoder_of(request_class, version)(frame, at)
            answer = self._broker.answer(request, version)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is HANG_UP:
                self._hang_up()
                return
            if answer is not NO_ANSWER:
                self._reply(answer, version, header.correlation_id)

    def _reply(self, response: Response, version: int, correlation_id: int) -> None:
        header_version = response_header_version(type(response), version)
        body = encode(ResponseHeader(correlation_id=correlation_id), header_version) + encode(response, version)
        self._send(pack_size(len(body)) + body)
