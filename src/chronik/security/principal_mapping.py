"""Maps a certificate's subject to the name of a principal: ssl.principal.mapping.rules, as in Kafka's
SslPrincipalMapper.

Rules are separated by commas: `DEFAULT` uses the whole subject; `RULE:pattern/replacement/` with an optional L or U
replaces the pattern and converts the result to lower or upper case. A pattern must match the whole subject. The first
matching rule applies; if none does, the connection is refused. Pure.

Patterns use RE2, which matches in time linear in the subject. The client chooses the subject, and with a backtracking
matcher a subject of a kilobyte could block the event loop for a minute, even with the rule in Kafka's documentation.

Kafka ignores a rule that a line end follows, and treats a reference to a missing group as text. Both are refused here:
a rule that differs from its author's intention admits the wrong clients. For the same reason a case-insensitive pattern
matches no subject with a letter outside ASCII that is K or S in another case: Java compares only ASCII there, and RE2
does not.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

KEY: Final = "ssl.principal.mapping.rules"
# As in Kafka: a backslash removes the special meaning of the next character.
_splitter = re.compile(r"\s*((DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?)\s*(,\s*|$)")
_group = re.compile(r"\\(.)|\$([0-9])")
_ignores_case = re.compile(r"\(\?[a-zA-Z]*i")
_LIKE_ASCII: Final = frozenset("\u212a\u017f")  # the Kelvin sign, and the long s


class BadRules(ValueError):
    """The message is only the reason."""


class NoRuleFits(ValueError):
    """No rule matches a subject."""


class Rule(NamedTuple):
    """Without a pattern it uses the whole subject."""

    pattern: Any  # a compiled RE2 pattern; the library has no types
    replacement: str = ""
    case: str = ""  # L, U or nothing
    ignores_case: bool = False  # whether the pattern ignores case

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.ignores_case and not _LIKE_ASCII.isdisjoint(subject):
            return None
        if self.pattern.fullmatch(subject) is None:
            return None
        name: str = self.pattern.sub(self._filled, subject)
        # Like Java, replaces every match: `.*` without ^ and $ matches once more, at the end.
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _filled(self, matched: Any) -> str:
        return _group.sub(lambda part: part[1] or matched[int(part[2])] or "", self.replacement)


class PrincipalMapping:
    def __init__(self, text: str = "DEFAULT") -> None:
        """Raises BadRules."""
        self._rules = _parse(text)

    def name(self, subject: str) -> str:
        """Raises NoRuleFits."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleFits(f"no rule of {KEY} fits the subject {subject!r} of its certificate")


def _parse(text: str) -> list[Rule]:
    rules = []
    at = 0
    text = text.strip()
    while at < len(text):
        matched = _splitter.match(text, at)
        if matched is None or matched.end() == at:
            raise BadRules(f"no rule begins at {text[at:]!r}: write DEFAULT or RULE:pattern/replacement/[LU]")
        at = matched.end()
        rules.append(Rule(None) if matched[2] else _rule(matched[3], matched[5], matched[7]))
    return rules


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    import re2  # type: ignore[import-untyped]  # here, because a node without rules starts faster without

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        text = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise BadRules(f"{pattern!r} is not an RE2 pattern: {text}") from None
    for number in (int(part[2]) for part in _group.finditer(replacement) if part[2]):
        if number > compiled.groups:
            raise BadRules(f"{replacement!r} names group {number}, and {pattern!r} has {compiled.groups}")
    return Rule(compiled, replacement, case, _ignores_case.search(pattern) is not None)
