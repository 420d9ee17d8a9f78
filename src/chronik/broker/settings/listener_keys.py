"""A listener's own values: `listener.name.NAME.KEY` replaces `KEY` for this listener.

A key of one SASL mechanism is `listener.name.NAME.MECHANISM.KEY`. Names of listeners, mechanisms and keys are compared
in lower case, as in Kafka. This module does not know which keys exist.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "listener.name."


class ListenerKeys:
    def __init__(self, static: Mapping[str, str], name: str) -> None:
        self._static = {key.lower(): text for key, text in static.items()}
        self._prefix = f"{PREFIX}{name.lower()}."

    def text(self, key: str, mechanism: str = "") -> str | None:
        """The value for this listener, or for this mechanism on it. None if it is not set."""
        of_mechanism = f"{mechanism.lower()}." if mechanism else ""
        return self._static.get(f"{self._prefix}{of_mechanism}{key}".lower(), self._static.get(key.lower()))

    def nearest(self, key: str, mechanism: str) -> tuple[str, str | None]:
        """The full name and the value: the mechanism's on this listener, else the listener's, else that of all
        listeners."""
        names = (f"{self._prefix}{mechanism.lower()}.{key}", f"{self._prefix}{key}")
        for name in names:
            if name in self._static:
                return name, self._static[name]
        return key, self._static.get(key)
