"""The headers in front of every request and response, and which version of them goes with a message.

Request header: v0 belongs to ControlledShutdown alone, which no client sends any more; v1 client_id; v2 flexible.
Response header: v0 the correlation id; v1 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Data, Request, Response, field, int16, int32, string

API_VERSIONS = 18


class RequestHeader(Data, versions="0-2", flexible="2+"):
    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    # Never compact: a broker must read the header of a request whose version it does not know.
    client_id: string | None = field("1+", flexible="none")


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    correlation_id: int32


def request_header_version(request_class: type[Request], version: int) -> int:
    return 2 if version in request_class.flexible else 1


def response_header_version(response_class: type[Response], version: int) -> int:
    # A client that asks for ApiVersions does not know yet whether the broker understands its version.
    if response_class.api_key == API_VERSIONS:
        return 0
    return 1 if version in response_class.flexible else 0
