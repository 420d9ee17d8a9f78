"""The key `match` of a metrics subscription: which clients it is for, as `client_id=analytics-.*`.

A client must match every selector; without selectors all clients match. Patterns are RE2 and match the whole value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from chronik.catalogue.values import InvalidValue
from chronik.runtime.client_patterns import InvalidPattern, compile_pattern

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"
SELECTABLE: Final = (
    CLIENT_INSTANCE_ID,
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)

Selectors = Mapping[str, Callable[[str], bool]]  # by what of a client they look at


def parse_selectors(texts: Iterable[str]) -> Selectors:
    """Of two selectors of the same kind the last counts, as in Kafka. Raises InvalidValue."""
    selectors: dict[str, Callable[[str], bool]] = {}
    for text in texts:
        name, _, pattern = text.rstrip("=").partition("=")
        if name.strip() not in SELECTABLE or not pattern or "=" in pattern:
            raise InvalidValue(f"{text!r}: write NAME=PATTERN with a name of {', '.join(SELECTABLE)}")
        try:
            selectors[name.strip()] = compile_pattern(pattern.strip())
        except InvalidPattern as fault:
            raise InvalidValue(str(fault)) from fault
    return selectors


def are_met(selectors: Selectors, client: Mapping[str, str | None]) -> bool:
    """What is not known of a client matches nothing."""
    return all((value := client.get(name)) is not None and matches(value) for name, matches in selectors.items())


def why_no_selectors(texts: tuple[str, ...]) -> str | None:
    try:
        parse_selectors(texts)
    except InvalidValue as reason:
        return str(reason)
    return None
