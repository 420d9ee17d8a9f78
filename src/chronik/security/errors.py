"""What is wrong with a configuration of security. The whole tree:

SecurityError
└── BadKey      the operator's: a configuration key, its value, the reason
"""

from __future__ import annotations


class SecurityError(Exception):
    """Base of this package's errors."""


class BadKey(SecurityError):
    """A key of the configuration that cannot be used. `value` is what may be shown of it."""

    def __init__(self, key: str, value: str, reason: str) -> None:
        super().__init__(f"{key}={value}: {reason}")
        self.key, self.value, self.reason = key, value, reason
