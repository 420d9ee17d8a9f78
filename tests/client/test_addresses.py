"""host:port as users write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.addresses import Address, parse_addresses
from chronik.client.errors import BadAddress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9093", [Address("localhost", 9093)]),
        ("broker", [Address("broker", 9092)]),
        (" a:1 , b:2,, ", [Address("a", 1), Address("b", 2)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[fe80::1%eth0]", [Address("fe80::1%eth0", 9092)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[Address]) -> None:
    """Every form that people copy from somewhere."""
    assert list(parse_addresses(text)) == expected


@pytest.mark.parametrize(
    "text", ["", " , ", "a:", ":9092", "a:x", "a:0", "a:65536", "::1", "[::1", "[::1]9092", "a:-1", "a:²"]
)
def test_what_names_no_broker_is_refused_with_the_text(text: str) -> None:
    """A typing error must not become a DNS lookup that takes a minute."""
    with pytest.raises(BadAddress, match=r"write host:port|not a port"):
        parse_addresses(text)


@given(st.sampled_from(["broker", "10.0.0.1", "::1", "a.b"]), st.integers(1, 65_535))
def test_an_address_is_shown_as_it_is_read(host: str, port: int) -> None:
    """Error messages must be ready to paste."""
    assert parse_addresses(str(Address(host, port))) == (Address(host, port),)
