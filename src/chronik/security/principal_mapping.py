"""From a certificate's subject to the name of a principal: ssl.principal.mapping.rules, as Kafka's SslPrincipalMapper.

Rules are separated by commas: `DEFAULT` takes the whole subject; `RULE:pattern/replacement/` with an optional L or U
takes what the pattern makes of it, in lower or upper case. A pattern must match the whole subject. The first rule that
fits counts; if none does, the connection is refused. Pure.

Patterns are RE2's: matching takes time linear in the subject. The client chooses the subject, and with a backtracking
matcher a subject of a kilobyte would hold up the event loop for a minute, by the rule that Kafka's documentation shows.

Kafka drops a rule that a line end follows, and takes a reference to a group that is not there for text. Both are
refused here: a rule that says something else than its author thinks lets the wrong people in. For the same reason a
pattern that ignores case fits no subject with a letter outside ASCII that is K or S in another case: there Java
compares ASCII alone, and RE2 does not.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

KEY: Final = "ssl.principal.mapping.rules"
# As Kafka has them: a backslash takes the special meaning from the character behind it.
_splitter = re.compile(r"\s*((DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?)\s*(,\s*|$)")
_group = re.compile(r"\\(.)|\$([0-9])")
_ignores_case = re.compile(r"\(\?[a-zA-Z]*i")
_LIKE_ASCII: Final = frozenset("\u212a\u017f")  # the Kelvin sign, and the long s


class BadRules(ValueError):
    """The message is the reason alone."""


class NoRuleFits(ValueError):
    """No rule fits a subject."""


class Rule(NamedTuple):
    """Without a pattern it takes the whole subject."""

    pattern: Any  # a compiled pattern of RE2, which has no types
    replacement: str = ""
    case: str = ""  # L, U or nothing
    ignores_case: bool = False  # the pattern does

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.ignores_case and not _LIKE_ASCII.isdisjoint(subject):
            return None
        if self.pattern.fullmatch(subject) is None:
            return None
        name: str = self.pattern.sub(self._filled, subject)
        # Java replaces every match, and so do we: `.*` without ^ and $ matches once more, at the end.
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
        raise BadRules(f"{pattern!r} is no pattern of RE2: {text}") from None
    for number in (int(part[2]) for part in _group.finditer(replacement) if part[2]):
        if number > compiled.groups:
            raise BadRules(f"{replacement!r} names group {number}, and {pattern!r} has {compiled.groups}")
    return Rule(compiled, replacement, case, _ignores_case.search(pattern) is not None)
