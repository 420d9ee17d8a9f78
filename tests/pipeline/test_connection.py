"""The blocking connection of Spark's workers, against a listener in a thread that sends scripted data."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chronik.client.errors import BadAnswer, ClientError, Closed, Unreachable, Unsupported
from chronik.peer.addresses import Address
from chronik.pipeline import connection as module
from chronik.pipeline.connection import BlockingConnection
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from chronik.wire.notation import Versions
from tests.wire.brokers import Asked, api_versions, asked, reply

SERVED = {16: ListGroupsRequest.versions, 18: Versions(0, 4)}
UNSUPPORTED_VERSION = 35

Answer = Callable[[Asked], bytes | None]  # None: hang up


def answer_versions(request: Asked) -> bytes:
    return reply(api_versions(SERVED), request.version, request.correlation_id)


@contextmanager
def listening(answers: list[Answer]) -> Iterator[Address]:
    """Accepts one connection and answers its requests in order; then waits for the other side to close."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener.accept()[0] as peer:
            peer.settimeout(30)
            for answer in answers:
                size = peer.recv(4, socket.MSG_WAITALL)
                if len(size) < 4:
                    return
                frame = peer.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                data = answer(asked(size + frame, ListGroupsRequest, HeartbeatRequest)[0])
                if data is None:
                    return
                peer.sendall(data)
            while peer.recv(1000):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Address(*listener.getsockname())
    finally:
        thread.join(30)
        listener.close()


def groups(count: int) -> Answer:
    many = [ListedGroup(group_id=f"group-{index:06}" * 10, protocol_type="consumer") for index in range(count)]
    return lambda request: reply(ListGroupsResponse(error_code=0, groups=many), request.version, request.correlation_id)


def test_requests_may_be_sent_before_answers_are_read() -> None:
    """A worker decodes one answer while the next is on its way; answers keep the order of requests."""
    answers = [answer_versions, groups(1), groups(5_000), groups(2)]
    with listening(answers) as address, BlockingConnection(address, "test") as connection:
        for _ in range(3):
            connection.send(ListGroupsRequest(), ListGroupsResponse)
        counts = [len(connection.receive().groups) for _ in range(3)]  # type: ignore[attr-defined]
    assert counts == [1, 5_000, 2]


def test_a_broker_too_old_for_our_api_versions_is_asked_again() -> None:
    """The same version negotiation as in other clients."""
    too_new: Answer = lambda request: reply(  # noqa: E731
        api_versions({18: Versions(0, 2)}, UNSUPPORTED_VERSION), 0, request.correlation_id
    )
    with listening([too_new, answer_versions, groups(1)]) as address, BlockingConnection(address, "test") as connection:
        assert len(connection.ask(ListGroupsRequest(), ListGroupsResponse).groups) == 1


@pytest.mark.parametrize(
    ("answers", "error", "why"),
    [
        ([lambda request: None], Unreachable, "closed the connection before it answered ApiVersions"),
        ([answer_versions, lambda request: None], Unreachable, "closed the connection before it answered ListGroups"),
        ([lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n"], BadAnswer, "is this a plaintext Kafka listener"),
        (
            [answer_versions, lambda request: reply(ListGroupsResponse(error_code=0, groups=[]), 5, 9)],
            BadAnswer,
            "id 9",
        ),
    ],
)
def test_what_goes_wrong_says_where_and_why(answers: list[Answer], error: type[ClientError], why: str) -> None:
    """A task of Spark fails with this text, and a log line is all that its user has."""

    def work(address: Address) -> None:
        with BlockingConnection(address, "test") as connection:
            connection.ask(ListGroupsRequest(), ListGroupsResponse)

    with listening(answers) as address, pytest.raises(error, match=rf"{address}.*{why}"):
        work(address)


def test_a_broker_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hangs would block its executor forever."""
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_MS", 50)
    with listening([answer_versions]) as address, BlockingConnection(address, "test") as connection:
        with pytest.raises(Unreachable, match="left a ListGroups request without answer for 50 ms"):
            connection.ask(ListGroupsRequest(), ListGroupsResponse)
        with pytest.raises(Unreachable, match="left a ListGroups request"):
            connection.receive()


def test_misuse_is_said_at_once() -> None:
    """An API that is not served, and an answer to nothing: waiting for either would end in a timeout only."""
    with listening([answer_versions]) as address, BlockingConnection(address, "test") as connection:
        with pytest.raises(Unsupported, match="does not serve Heartbeat"):
            connection.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), HeartbeatResponse)
        with pytest.raises(Closed, match="was asked nothing"):
            connection.receive()
