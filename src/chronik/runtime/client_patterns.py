"""Regular expressions that clients send, as RE2: matching takes time linear in the text, whatever the pattern is.

Java's back-references and look-around are refused as invalid, because RE2 does not have them.
"""

from __future__ import annotations

from collections.abc import Callable

PATTERN_BYTES_MAX = 64 << 10  # of the compiled program; RE2 refuses larger ones


class InvalidPattern(Exception):
    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"invalid regular expression {pattern!r}: {reason}")


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Returns a function that says whether the whole text matches the pattern. Raises InvalidPattern."""
    import re2  # type: ignore[import-untyped]  # here, because few clients send one, and a node starts faster without

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        raise InvalidPattern(pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from error
    return lambda text: compiled.fullmatch(text) is not None
