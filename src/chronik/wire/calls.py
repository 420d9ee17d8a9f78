"""One API in one version, from the client's view: a request becomes a frame, a frame becomes a response.

A `Call` is created once and used for every request of its kind. The request headers differ only in size and correlation
id, so only these two are packed for each request.

A broker that does not know the version of an ApiVersions request answers in version 0 with UNSUPPORTED_VERSION.
`Call.read` recognises that answer.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import Any, Final

from chronik.wire.compiler import decoder_of, encode, encoder_of
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.headers import (
    API_VERSIONS,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from chronik.wire.notation import Request, Response

Buffer = bytes | bytearray | memoryview

SMALL_REQUEST_BYTES: Final = 16 * 1024  # up to this size, joining the parts is cheaper than writing several buffers
CORRELATION_ID_MAX: Final = 2**31 - 1
_TOO_NEW: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
_START: Final = Packing(">ihhi")  # size, API key, API version, correlation id
_pack_start: Final = _START.pack
_SIZE_BYTES: Final = 4
_NUMBER_BYTES: Final = 4
_number_of: Final = Packing(">i").unpack_from


class Call:
    """`response` is None for a request without a response: a produce with acks=0."""

    __slots__ = (
        "_client_id",
        "_decode",
        "_encode",
        "_header_bytes",
        "_is_api_versions",
        "_start_bytes",
        "api_key",
        "name",
        "response",
        "version",
    )

    def __init__(self, request: type[Request], response: type[Response] | None, version: int, client_id: str) -> None:
        self.api_key = request.api_key
        self.version = version
        self.name = request.__name__.removesuffix("Request")
        self.response = response
        self._encode = encoder_of(request, version)
        header = RequestHeader(
            request_api_key=request.api_key, request_api_version=version, correlation_id=0, client_id=client_id
        )
        # The bytes after the correlation id: the client id and, in a flexible header, an empty tag section.
        self._client_id = encode(header, request_header_version(request, version))[_START.size - _SIZE_BYTES :]
        self._start_bytes = _START.size + len(self._client_id)
        self._decode = None if response is None else decoder_of(response, version)
        # Version 1 of the response header adds a tag section, which is one byte if it is empty.
        self._header_bytes = _NUMBER_BYTES + (0 if response is None else response_header_version(response, version))
        self._is_api_versions = request.api_key == API_VERSIONS

    def frame(self, request: Request, correlation_id: int) -> tuple[list[Buffer], int]:
        """The buffers to write, in order, and their size. A small request is one buffer. Raises Unencodable."""
        parts: list[Any] = [b""]
        self._encode(request, parts)
        size_bytes = sum(map(len, parts)) + self._start_bytes
        parts[0] = _pack_start(size_bytes - _SIZE_BYTES, self.api_key, self.version, correlation_id) + self._client_id
        if size_bytes <= SMALL_REQUEST_BYTES:
            return [b"".join(parts)], size_bytes
        return parts, size_bytes

    def read(self, frame: memoryview, correlation_id: int, decode_bytes_max: int) -> Response:
        """The response in a frame. Raises Malformed if its bytes are invalid or the correlation id does not match."""
        at = self._header_bytes
        if len(frame) < at or (at > _NUMBER_BYTES and frame[_NUMBER_BYTES]):  # truncated, or with tagged fields
            _, at = decoder_of(ResponseHeader, at - _NUMBER_BYTES)(frame, 0, decode_bytes_max)
        (number,) = _number_of(frame)
        if number != correlation_id:
            raise Malformed(f"{self.name} response", 0, f"correlation id {number}, where {correlation_id} is due")
        decode = self._decode
        if self._is_api_versions and self.response is not None and frame[at : at + 2] == _TOO_NEW:
            decode = decoder_of(self.response, 0)
        assert decode is not None, "a request without a response has nothing to read"
        message: Response = decode(frame, at, decode_bytes_max)[0]
        return message
