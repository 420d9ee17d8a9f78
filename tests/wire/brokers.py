"""The other end of a `Peer`: reads the frames it sends, and frames responses to them."""

from __future__ import annotations

from typing import Any

from chronik.wire.compiler import decoder_of, encode
from chronik.wire.framing import FrameReader, pack_size
from chronik.wire.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from chronik.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from chronik.wire.notation import Request, Response, Versions


def joined(parts: list[Any]) -> bytes:
    return b"".join(parts)


class Asked:
    """A request as the broker reads it."""

    def __init__(self, frame: memoryview, classes: dict[int, type[Request]]) -> None:
        key, self.version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        request = classes[key]
        self.header, at = decoder_of(RequestHeader, request_header_version(request, self.version))(frame)
        self.request: Any
        self.request, end = decoder_of(request, self.version)(frame, at)
        assert end == len(frame), "a frame holds one request and nothing else"
        self.correlation_id = self.header.correlation_id


def asked(data: bytes, *requests: type[Request]) -> list[Asked]:
    known: tuple[type[Request], ...] = (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest, *requests)
    classes = {request.api_key: request for request in known}
    return [Asked(frame, classes) for frame in FrameReader(64 << 20).feed(data)]


def reply(response: Response, version: int, correlation_id: int) -> bytes:
    header = encode(ResponseHeader(correlation_id=correlation_id), response_header_version(type(response), version))
    body = header + encode(response, version)
    return pack_size(len(body)) + body


def api_versions(served: dict[int, Versions], error_code: int = 0) -> ApiVersionsResponse:
    keys = [
        ApiVersion(api_key=key, min_version=each.first, max_version=each.last) for key, each in sorted(served.items())
    ]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)
