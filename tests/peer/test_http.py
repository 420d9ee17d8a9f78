"""HTTP requests over a node's own network: which addresses are used, which answers are read, which are refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.peer.http import BODY_BYTES_MAX, AnswerReader, HttpAnswer, Url, allowed_url, get, post
from chronik.runtime.real import real_runtime
from chronik.runtime.tls import TlsClient
from chronik.testing.certificates import Authority
from chronik.wire.errors import Malformed
from chronik.wire.peer_errors import Unreachable
from tests.broker.sasl.identity_provider import IdentityProvider

BODY = b'{"keys": []}'


def test_addresses_that_protect_what_is_sent_are_allowed() -> None:
    assert allowed_url("https://idp.example/a/b?c=d") == Url("https", "idp.example", 443, "/a/b?c=d")
    assert allowed_url("https://[::1]:8443") == Url("https", "::1", 8443, "/")
    assert allowed_url("http://localhost:80/x").shown == "http://localhost:80/x"
    assert "secret" not in allowed_url("https://idp.example/x?key=secret").shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "idp.example",
        "ftp://idp.example/",
        "file:///etc/passwd",
        "http://idp.example/keys",
        "http://127.0.0.1.idp.example/keys",
        "https://user@idp.example/",
        "https://idp.example/#x",
        "https:///keys",
        "https://idp.example/a b",
        "https://idp.example/a\r\nHost: other",
        "https://idp.example:99999/",
    ],
)
def test_other_addresses_are_not(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        allowed_url(text)


ANSWERS = {
    "a length": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + BODY,
        HttpAnswer(200, {"content-length": "12"}, BODY),
    ),
    "the end": (b"HTTP/1.0 200 OK\r\nA:  b \r\n\r\n" + BODY, HttpAnswer(200, {"a": "b"}, BODY)),
    "chunks": (
        b'HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"key\r\n7;x=y\r\ns": []}\r\n0\r\nA: b\r\n\r\n',
        HttpAnswer(200, {"transfer-encoding": "chunked"}, BODY),
    ),
    "an interim answer": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\n\r\n" + BODY, HttpAnswer(404, {}, BODY)),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", HttpAnswer(204, {}, b"")),
}


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_however_it_arrives(name: str, step: int) -> None:
    data, expected = ANSWERS[name]
    reader = AnswerReader()
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    reader.end()
    assert reader.answer == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 10,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * (BODY_BYTES_MAX + 1),
    ],
)
def test_an_answer_without_end_or_form_is_refused(data: bytes) -> None:
    reader = AnswerReader()

    def read() -> None:
        reader.feed(data)
        reader.end()

    with pytest.raises(Malformed):
        read()


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def provider(authority: Authority, tmp_path: Path) -> Iterator[IdentityProvider]:
    with IdentityProvider(authority.server().write(tmp_path / "idp.pem")) as made:
        yield made


def fetched(url: str, tls: TlsClient | None, timeout_ms: int = 30_000) -> bytes:
    return asyncio.run(get(real_runtime().network, allowed_url(url), tls, timeout_ms))


def test_keys_are_fetched_from_whom_the_trust_store_names(provider: IdentityProvider, authority: Authority) -> None:
    """Another server that could respond in its place would decide who may log in."""
    assert fetched(provider.url("/keys"), TlsClient(trust_pem=authority.pem)) == provider.keys
    for tls in (TlsClient(trust_pem=Authority().pem), TlsClient()):
        with pytest.raises(Unreachable, match="certificate"):
            fetched(provider.url("/keys"), tls)
    with pytest.raises(Unreachable, match="TLS"):
        fetched(provider.url("/keys"), None)


def test_redirects_stay_on_their_host(provider: IdentityProvider, authority: Authority) -> None:
    """Otherwise one response could redirect a node to any address inside its network."""
    tls = TlsClient(trust_pem=authority.pem)
    provider.answers["/moved"] = 302, {"Location": "/keys"}, b""
    assert fetched(provider.url("/moved"), tls) == provider.keys
    for there in ("https://localhost/keys", f"http://127.0.0.1:{provider.port}/keys", "file:///etc/passwd", "//x/keys"):
        provider.answers["/moved"] = 302, {"Location": there}, b""
        with pytest.raises(Unreachable, match="redirects to"):
            fetched(provider.url("/moved"), tls)
    provider.answers["/moved"] = 302, {"Location": "/moved"}, b""
    with pytest.raises(Unreachable, match="more than 3 times"):
        fetched(provider.url("/moved"), tls)


def test_what_is_posted_is_not_sent_elsewhere(provider: IdentityProvider, authority: Authority) -> None:
    provider.answers["/token"] = 307, {"Location": "/other"}, b""
    with pytest.raises(Unreachable, match="status 307"):
        asyncio.run(
            post(
                real_runtime().network,
                allowed_url(provider.url("/token")),
                TlsClient(trust_pem=authority.pem),
                {"Authorization": "Basic eDp5"},
                b"grant_type=client_credentials",
                30_000,
            )
        )
    assert provider.asked["/other"] == 0


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(Unreachable, match="did not answer within 50 ms"):
            fetched(url, None, 50)


def test_an_address_that_nobody_listens_on_is_told() -> None:
    with pytest.raises(Unreachable, match="cannot connect"):
        fetched("http://127.0.0.1:1/", None)
