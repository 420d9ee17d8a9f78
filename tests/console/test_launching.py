"""The console of `chronik up`: there at once, started when it is opened, gone with its starter."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from chronik.console.launching import LazyConsole, listen


@pytest.fixture
def lazy() -> Iterator[LazyConsole]:
    made = LazyConsole("127.0.0.1:1", 0)
    yield made
    made.stop()


def test_a_port_that_is_taken_is_replaced() -> None:
    """Its address is printed anyway; a second cluster on this machine must start."""
    with listen(0) as first, listen(first.getsockname()[1]) as second:
        assert second.getsockname()[1] != first.getsockname()[1]


def test_it_costs_no_process_until_somebody_opens_it(lazy: LazyConsole) -> None:
    assert lazy._child is None


@pytest.mark.slow
def test_the_first_request_waits_for_it_and_signs_in(lazy: LazyConsole) -> None:
    at, port = urlsplit(lazy.url), lazy.port
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/?{at.query}")
    response = connection.getresponse()
    assert (response.status, response.getheader("Location")) == (303, "/")
    assert response.getheader("Set-Cookie", "").startswith(f"chronik_console_{port}=")
    connection.close()
    child = lazy._child
    assert child is not None
    lazy.stop()
    assert child.poll() is not None
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


@pytest.mark.slow
def test_it_ends_when_its_starter_does(lazy: LazyConsole) -> None:
    """Even one that was killed: the pipe to it ends."""
    connection = HTTPConnection("127.0.0.1", lazy.port)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()
    child = lazy._child
    assert child is not None
    assert child.stdin is not None
    child.stdin.close()
    child.wait()
