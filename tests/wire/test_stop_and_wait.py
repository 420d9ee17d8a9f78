"""One prepared request in flight, responses as bytes: the load generator's client."""

from __future__ import annotations

import pytest

from chronik.wire.errors import Malformed
from chronik.wire.framing import pack_size
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.stop_and_wait import LargeResponses, SmallResponses, frame_of
from tests.wire.brokers import asked

RESPONSE = pack_size(12) + bytes(4) + b"contents"


def test_a_prepared_frame_is_a_whole_request() -> None:
    """It is sent many times, always with the same correlation id."""
    [request] = asked(frame_of(ListGroupsRequest(), 2, "bench"), ListGroupsRequest)
    assert (request.version, request.correlation_id, request.header.client_id) == (2, 0, "bench")


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 8, 9, 100])
def test_a_small_response_is_handed_over_when_it_is_whole(piece_bytes: int) -> None:
    """With its size in front. Then the next one."""
    responses = SmallResponses()
    for _ in range(2):
        pieces = [RESPONSE[at : at + piece_bytes] for at in range(0, len(RESPONSE), piece_bytes)]
        assert [responses.received(piece) for piece in pieces] == [None] * (len(pieces) - 1) + [RESPONSE]


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 8, 9, 100])
def test_a_large_response_is_handed_over_without_its_size(piece_bytes: int) -> None:
    responses = LargeResponses()
    for _ in range(2):
        got = []
        for at in range(0, len(RESPONSE), piece_bytes):
            piece = RESPONSE[at : at + piece_bytes]
            responses.room()[: len(piece)] = piece
            got.append(responses.received(len(piece)))
        assert got[:-1] == [None] * (len(got) - 1)
        assert bytes(got[-1] or b"") == RESPONSE[4:]


@pytest.mark.parametrize(
    "data",
    [
        pack_size(12) + bytes.fromhex("00000001") + b"contents",  # of another request
        RESPONSE + RESPONSE,  # only one was requested
        pack_size(-1) + bytes(4),
        pack_size(2**30) + bytes(4),
        pack_size(2) + bytes(2) + RESPONSE,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_what_is_not_the_response_that_is_due_is_noticed(data: bytes) -> None:
    """A benchmark that counts wrong bytes as responses is worthless."""
    with pytest.raises(Malformed):
        SmallResponses().received(data)
    large = LargeResponses()
    large.room()[: len(data)] = data
    with pytest.raises(Malformed):
        large.received(len(data))
