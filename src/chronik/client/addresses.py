"""Parses addresses as users write them: `host:port`, in comma-separated lists. Never resolves a name."""

from __future__ import annotations

from chronik.client.errors import BadAddress
from chronik.peer.addresses import Address

__all__ = ["PORT_DEFAULT", "Address", "parse_address", "parse_addresses"]

PORT_DEFAULT = 9092
PORT_MAX = 65_535
LABEL_MAX = 63  # DNS limit for the part of a host name between two dots


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parses `host:port,host:port`; the default port is 9092, and IPv6 addresses need brackets."""
    addresses = tuple(parse_address(each.strip()) for each in text.split(",") if each.strip())
    if not addresses:
        raise BadAddress(f"{text!r} names no broker: write host:port, for example localhost:{PORT_DEFAULT}")
    return addresses


def parse_address(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        separator, port = rest[:1], rest[1:]
        is_wrong = not bracket or (rest != "" and separator != ":")
    else:
        host, separator, port = text.partition(":")
        is_wrong = ":" in port
    if is_wrong or not host or (separator and not port):
        raise BadAddress(f"{text!r} is not an address: write host:port, or [ipv6]:port")
    if not all(0 < len(label) <= LABEL_MAX for label in host.removesuffix(".").split(".")):
        raise BadAddress(f"{text!r} is not an address: the parts of a host name have 1 to {LABEL_MAX} characters")
    if not port:
        return Address(host, PORT_DEFAULT)
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise BadAddress(f"{text!r} is not an address: {port!r} is not a port from 1 to {PORT_MAX}")
    return Address(host, int(port))
