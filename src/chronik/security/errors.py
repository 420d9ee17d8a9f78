"""Errors in a security configuration. The whole tree:

SecurityError
└── BadKey      operator error: a configuration key, its value, the reason
"""

from __future__ import annotations


class SecurityError(Exception):
    """Base of this package's errors."""


class BadKey(SecurityError):
    """An invalid configuration key. `value` is the part of it that may be shown."""

    def __init__(self, key: str, value: str, reason: str) -> None:
        super().__init__(f"{key}={value}: {reason}")
        self.key, self.value, self.reason = key, value, reason
