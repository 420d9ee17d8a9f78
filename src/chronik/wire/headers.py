"""The headers of requests and responses, and which header version a message uses.

Request header: v0 belongs only to ControlledShutdown, which clients no longer send; v1 client_id; v2 flexible.
Response header: v0 the correlation id; v1 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Data, Request, Response, field, int16, int32, string

API_VERSIONS = 18


class RequestHeader(Data, versions="0-2", flexible="2+"):
    request_api_key: int16
    request_api_version: int16
    correlation_id: int32
    # Never compact: a broker must be able to read the header of a request with an unknown version.
    client_id: string | None = field("1+", flexible="none")


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    correlation_id: int32


def request_header_version(request_class: type[Request], version: int) -> int:
    return 2 if version in request_class.flexible else 1


def response_header_version(response_class: type[Response], version: int) -> int:
    # A client that sends ApiVersions does not know yet which versions the broker supports.
    if response_class.api_key == API_VERSIONS:
        return 0
    return 1 if version in response_class.flexible else 0
