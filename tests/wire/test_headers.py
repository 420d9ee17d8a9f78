"""Which header goes in front of which message. With the wrong one the body is read at the wrong place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chronik.wire.headers import request_header_version, response_header_version
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from chronik.wire.messages.produce import ProduceRequest, ProduceResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from chronik.wire.notation import Request, Response

CASES = [
    # request, response, version, request header, response header
    (ProduceRequest, ProduceResponse, 0, 1, 0),
    (ProduceRequest, ProduceResponse, 8, 1, 0),
    (ProduceRequest, ProduceResponse, 9, 2, 1),
    (ProduceRequest, ProduceResponse, 13, 2, 1),
    (SaslHandshakeRequest, SaslHandshakeResponse, 1, 1, 0),
    (DescribeClusterRequest, DescribeClusterResponse, 0, 2, 1),
    (ApiVersionsRequest, ApiVersionsResponse, 2, 1, 0),
    (ApiVersionsRequest, ApiVersionsResponse, 3, 2, 0),
    (ApiVersionsRequest, ApiVersionsResponse, 4, 2, 0),
]


@pytest.mark.parametrize(("request_class", "response_class", "version", "request_header", "response_header"), CASES)
def test_flexible_messages_have_flexible_headers_but_for_the_answer_to_api_versions(
    request_class: type[Request],
    response_class: type[Response],
    version: int,
    request_header: int,
    response_header: int,
) -> None:
    """A client that sends ApiVersions does not know the broker's versions yet, so the header of the response never
    changes."""
    assert request_header_version(request_class, version) == request_header
    assert response_header_version(response_class, version) == response_header
