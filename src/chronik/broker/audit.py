"""The audit of permissions: one line of JSON for each action that was denied or that changes the cluster.

The logger is `chronik.authorizer`. Denied actions and changes are logged at INFO, other allowed actions at DEBUG. If
one rule denies the same caller repeatedly, the log has at most one line per second, and `repeated` counts the denials
since the previous line. Changes are always logged. Strings that clients choose are escaped, so clients cannot forge
lines.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from chronik.metadata.access import AccessRule
from chronik.runtime.units import NS_PER_S
from chronik.security.words import rule_text

if TYPE_CHECKING:
    from chronik.broker.permissions import Operation, Resource
    from chronik.broker.session import Session
    from chronik.security.deciding import Decision

log = logging.getLogger("chronik.authorizer")

QUIET_NS: Final = NS_PER_S  # between two lines for one principal and rule
CALLERS_MAX: Final = 1_000  # pairs of principal and rule that are counted
TEXT_CHARS_MAX: Final = 300  # of each string that a client chose


class Audit:
    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        # Time of the last line, and the number of denials since.
        self._last: dict[tuple[str, object], tuple[int, int]] = {}

    @property
    def is_detailed(self) -> bool:
        """Whether allowed actions are logged too."""
        return log.isEnabledFor(logging.DEBUG)

    def denied(
        self, session: Session, operation: Operation, kind: Resource, name: str, api: str, decision: Decision
    ) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        key = (str(session.principal), decision.rule or decision.why)
        now_ns = self._now_ns()
        last_ns, repeated = self._last.get(key, (None, 0))
        if last_ns is not None and now_ns - last_ns < QUIET_NS:
            self._last[key] = last_ns, repeated + 1
            return
        if len(self._last) >= CALLERS_MAX and key not in self._last:
            del self._last[next(iter(self._last))]
        self._last.pop(key, None)  # the key moves to the end, so the first key is the oldest
        self._last[key] = now_ns, 0
        line = _line("denied", session, operation, kind, name, api, decision)
        if repeated:
            line["repeated"] = repeated
        log.info("%s", json.dumps(line))

    def changing(
        self, session: Session, operation: Operation, kind: Resource, name: str, api: str, decision: Decision
    ) -> None:
        if log.isEnabledFor(logging.INFO):
            log.info("%s", json.dumps(_line("allowed", session, operation, kind, name, api, decision)))

    def allowed(
        self, session: Session, operation: Operation, kind: Resource, name: str, api: str, decision: Decision
    ) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s", json.dumps(_line("allowed", session, operation, kind, name, api, decision)))


def note_rules(session: Session, change: str, rules: Iterable[AccessRule]) -> None:
    """Logs who created or deleted which rules. Call it after the commit."""
    for rule in rules:
        who = {"principal": _cut(str(session.principal)), "host": session.host}
        log.info("%s", json.dumps({"action": change, **who, "rule": _cut(rule_text(rule))}))


def _line(
    action: str, session: Session, operation: Operation, kind: Resource, name: str, api: str, decision: Decision
) -> dict[str, Any]:
    return {
        "action": action,
        "principal": _cut(str(session.principal)),
        "host": session.host,
        "operation": operation.name,
        "resource": f"{kind.name}:{_cut(name)}",
        "api": api,
        "rule": decision.why.value if decision.rule is None else _cut(rule_text(decision.rule)),
    }


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."
