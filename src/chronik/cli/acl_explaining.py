"""Why somebody may or may not do something, in words: the rule that decides, and what else applies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from chronik.security.deciding import Decision, Why
from chronik.security.words import OPERATIONS, RESOURCE_TYPES, rule_text

if TYPE_CHECKING:
    from chronik.metadata.access import AccessRule

SHOWN_MAX = 20


def explained(
    decision: Decision,
    principal: str,
    host: str,
    operation: int,
    kind: int,
    name: str,
    applying: Iterable[AccessRule],
) -> Sequence[str]:
    what = f"{OPERATIONS[operation].lower()} {RESOURCE_TYPES[kind].lower()} {name}"
    where = "" if host == "*" else f" from {host}"
    lines = [f"{principal} {'may' if decision.allowed else 'may not'} {what}{where}: {_reason(decision, operation)}"]
    others = sorted(rule for rule in applying if rule != decision.rule)
    if others:
        lines.append(
            "Other rules that apply to this resource:" if decision.rule else "Rules that apply to this resource:"
        )
        lines += [f"  {rule_text(rule)}" for rule in others[:SHOWN_MAX]]
        if len(others) > SHOWN_MAX:
            lines.append(f"  and {len(others) - SHOWN_MAX} more: chronik acl list --matching shows them")
    return lines


def _reason(decision: Decision, operation: int) -> str:
    if decision.rule is None:
        return (
            f"{decision.why.value}."
            if decision.why is not Why.NO_RULE
            else "no rule applies to the resource, and what no rule allows is denied."
        )
    implied = ""
    if decision.allowed and decision.rule.operation not in (2, operation):
        implied = f", which implies {OPERATIONS[operation].lower()}"
    return f"{decision.why.value}: {rule_text(decision.rule)}{implied}."
