"""What a request must look like: the first line of defence of the console, as tables."""

from __future__ import annotations

import pytest

from chronik.console.errors import ConsoleError
from chronik.console.gate import Gate, require_post

LOOPBACK = Gate("127.0.0.1", 8080, is_secure=False)
OPEN = Gate("0.0.0.0", 443, is_secure=True, names=["console.example.com"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "localhost.:8080", "[::1]:8080"]
)
def test_the_names_of_loopback_are_ours(host: str) -> None:
    assert LOOPBACK.require_host([host]) == host


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["attacker.example:8080"],
        ["127.0.0.1.attacker.example:8080"],
        ["127.0.0.1"],
        ["127.0.0.1:80"],
        ["127.0.0.1:8080", "127.0.0.1:8080"],
        ["192.0.2.1:8080"],
        ["user@127.0.0.1:8080"],
        ["127.0.0.1:8080/"],
        [""],
    ],
)
def test_any_other_host_is_refused(hosts: list[str]) -> None:
    """A name that points at this address (DNS rebinding) makes a foreign page the same origin to a browser."""
    with pytest.raises(ConsoleError) as refused:
        LOOPBACK.require_host(hosts)
    assert refused.value.code == "BAD_HOST"


def test_an_open_console_is_called_by_its_names_and_addresses() -> None:
    """No page can be given an address as its name."""
    assert OPEN.require_host(["console.example.com"])
    assert OPEN.require_host(["192.0.2.7"])
    with pytest.raises(ConsoleError):
        OPEN.require_host(["other.example.com"])


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://attacker.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8080"},
        {"origin": "http://127.0.0.1:9090"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
def test_the_api_is_for_pages_of_this_origin(headers: dict[str, str]) -> None:
    with pytest.raises(ConsoleError) as refused:
        LOOPBACK.require_origin("127.0.0.1:8080", headers, is_page=False)
    assert refused.value.code == "BAD_ORIGIN"


def test_a_link_from_elsewhere_may_open_a_page_but_not_a_frame() -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    LOOPBACK.require_origin("127.0.0.1:8080", link, is_page=True)
    with pytest.raises(ConsoleError):
        LOOPBACK.require_origin("127.0.0.1:8080", {**link, "sec-fetch-dest": "iframe"}, is_page=True)


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:8080"}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}],
)
def test_scripts_and_our_own_pages_pass(headers: dict[str, str]) -> None:
    LOOPBACK.require_origin("127.0.0.1:8080", headers, is_page=False)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-chronik-console": "1"}, "NOT_JSON"),
        ({"x-chronik-console": "1", "content-type": "text/plain"}, "NOT_JSON"),
        ({"x-chronik-console": "1", "content-type": "application/x-www-form-urlencoded"}, "NOT_JSON"),
        ({"content-type": "application/json"}, "HEADER_MISSING"),
    ],
)
def test_a_post_that_a_form_could_send_is_refused(headers: dict[str, str], code: str) -> None:
    with pytest.raises(ConsoleError) as refused:
        require_post(headers)
    assert refused.value.code == code


def test_a_post_of_json_with_the_header_passes() -> None:
    require_post({"content-type": "application/json; charset=utf-8", "x-chronik-console": "1"})
