"""What a request must look like before anything is done for it: its Host, its origin, its headers. Pure.

A page of another origin can make a browser send requests here, with cookies or without. Its requests fail here because
of the Host (if its name points at this address), of Origin or Sec-Fetch-Site, or because a POST needs a header that a
foreign page may not send. There is no CORS: nothing grants another origin anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from chronik.console.errors import ConsoleError
from chronik.console.settings import is_loopback

HEADER: Final = "x-chronik-console"
BODY_BYTES_MAX: Final = 16 << 20
OWN_SITES: Final = frozenset({"same-origin", "none"})
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "font-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
HSTS: Final = "max-age=31536000"
_host: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


class Gate:
    """`host` is the address that the console listens on, `names` what else browsers may call it."""

    def __init__(self, host: str, port: int, *, is_secure: bool, names: Iterable[str] = ()) -> None:
        self._port, self._is_secure = port, is_secure
        own = {host.lower(), *(name.lower().rstrip(".") for name in names)}
        if is_loopback(host):
            own |= {"localhost", "127.0.0.1", "::1"}
        self._takes_any_address = host in ("0.0.0.0", "::")  # noqa: S104 - compared with
        self._names = own

    @property
    def scheme(self) -> str:
        return "https" if self._is_secure else "http"

    def require_host(self, hosts: list[str]) -> str:
        """The one Host of a request. Raises BAD_HOST."""
        if len(hosts) == 1 and self._is_ours(hosts[0]):
            return hosts[0]
        shown = ", ".join(hosts)[:80]
        raise ConsoleError(
            "BAD_HOST", f"Host {shown!r} is not a name of this console", "start it with --host NAME to allow a name"
        )

    def _is_ours(self, host: str) -> bool:
        matched = _host.fullmatch(host)
        if matched is None:
            return False
        default = 443 if self._is_secure else 80
        if int(matched[2] or default) != self._port:
            return False
        name = matched[1].strip("[]").lower().rstrip(".")
        return name in self._names or (self._takes_any_address and _is_address(name))

    def require_origin(self, host: str, headers: Mapping[str, str], *, is_page: bool) -> None:
        """Raises BAD_ORIGIN. A link from elsewhere may open a page; nothing else may come from elsewhere."""
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{self.scheme}://{host.lower()}":
            raise ConsoleError("BAD_ORIGIN", f"a page of {origin[:80]!r} made this request")
        site = headers.get("sec-fetch-site")
        if site is None or site in OWN_SITES:
            return
        is_link = (
            is_page and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        )
        if not is_link:
            raise ConsoleError("BAD_ORIGIN", f"a page of another origin made this request ({site[:20]})")


def require_post(headers: Mapping[str, str]) -> None:
    """What a form or a script of another origin cannot send without being asked for."""
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise ConsoleError("NOT_JSON", "a POST takes Content-Type: application/json")
    if HEADER not in headers:
        raise ConsoleError("HEADER_MISSING", "a POST takes the header X-Chronik-Console: 1")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
