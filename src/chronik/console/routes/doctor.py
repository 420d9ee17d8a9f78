"""The doctor: what `chronik doctor` finds, with links to the pages that show it."""

from __future__ import annotations

from typing import Any, Final

from chronik.client.doctor import findings_in, gather
from chronik.client.doctor.checks import CHECKS
from chronik.console.calls import Call, get
from chronik.console.commands import command_of
from chronik.console.snapshot import Missing

LINKS: Final = (
    ("group", "/groups"),
    ("letter", "/letters"),
    ("topic", "/topics"),
    ("partition", "/nodes/isr?problems=1"),
    ("replica", "/nodes/isr?problems=1"),
    ("isr", "/nodes/isr?problems=1"),
    ("move", "/nodes"),
)


@get("/doctor", limit_s=30.0)
async def doctor(call: Call) -> dict[str, Any]:
    clock = call.console.runtime.clock
    started_ns = clock.monotonic_ns()
    facts = await gather(call.cluster)
    found = findings_in(facts)
    call.missing += [Missing(part, reason) for part, reason in facts.unanswered.items()]
    return {
        "findings": [
            {
                "check": each.check,
                "severity": str(each.severity),
                "what": each.what,
                "consequence": each.consequence,
                "action": each.action,
                "since_ms": each.since_ms,
                "link": link_of(each.check),
            }
            for each in found
        ],
        "checks": len(CHECKS),
        "elapsed_ms": (clock.monotonic_ns() - started_ns) // 1_000_000,
        "command": command_of(call, "doctor"),
    }


def link_of(check: str) -> str:
    """The page about what a check is about, by the words of its name."""
    return next((link for word, link in LINKS if word in check), "/nodes")
