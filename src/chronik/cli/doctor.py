"""`chronik doctor`: what is wrong with a cluster, what follows from it, and the command that fixes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed
from chronik.cli.output import print_json, time_text, visible
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, progress, run
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronik.client.doctor import Facts, Finding
    from chronik.client.routing import ClusterClient


def doctor(*, bundle: Annotated[Path | None, Parameter(name="--bundle")] = None, options: Options = DEFAULTS) -> int:
    """Find out what is wrong with a cluster, and how to fix it.

    Asks every node about the quorum, brokers, partitions, disks, memory, clocks, settings, groups and dead letters. It
    changes nothing and reads no record values. It works while nodes are down and without a controller. What it
    says about disks, memory and clocks needs the nodes' admin listeners.

    Exits with 0 if there are no problems, 1 if there are, 3 if no broker answers. Advice does not change the exit code.

    For example:
      chronik doctor
      chronik doctor --format json | jq '.findings[].check'
      chronik doctor --bundle chronik-report.tar.gz

    Parameters
    ----------
    bundle
        Also write what was seen to this new file, for a bug report. It holds names of topics and groups, addresses and
        settings, but no passwords and no records.
    """
    if bundle is not None and bundle.exists():
        raise CommandFailed(f"--bundle {bundle}: the file exists; name another, or remove it")

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.doctor import Severity, findings_in, gather

        with progress("asking the nodes"):
            facts = await gather(cluster)
        findings = findings_in(facts)
        has_problems = any(each.severity is Severity.PROBLEM for each in findings)
        document = {
            "healthy": not has_problems,
            "time_ms": facts.now_ms,
            "findings": [_row(each) for each in findings],
            "unanswered": dict(facts.unanswered),
        }
        if bundle is not None:
            from chronik.cli.doctor_bundle import write_bundle

            with progress(f"writing {bundle}"):
                await write_bundle(bundle, cluster, facts, document)
        if options.wants_json:
            print_json(document)
        else:
            _print(facts, findings)
            if bundle is not None:
                print(f"wrote {bundle}: it names topics, groups, addresses and settings; read it before you send it")
        return REFUSED if has_problems else DONE

    return run(options, work, is_patient=True)


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "severity": str(finding.severity),
        "what": finding.what,
        "since_ms": finding.since_ms,
        "consequence": finding.consequence,
        "action": finding.action,
    }


def _print(facts: Facts, findings: Sequence[Finding]) -> None:
    from chronik.client.doctor import Severity

    problems = sum(each.severity is Severity.PROBLEM for each in findings)
    for finding in findings:
        since = f" (since {time_text(finding.since_ms)})" if finding.since_ms is not None else ""
        print(f"{finding.severity.upper()}: {visible(finding.what)}{since}")
        print(f"  {visible(finding.consequence)}")
        print(f"  {visible(finding.action)}")
    for what, why in facts.unanswered.items():
        print(f"not checked: {what}: {visible(why)}", file=sys.stderr)
    advice = len(findings) - problems
    summary = f"{counted(problems, 'problem')} found" if problems else "No problems found"
    summary += f", {counted(advice, 'recommendation')}" if advice else ""
    seen = f"{counted(len(facts.statuses), 'node')} answered on the admin listener"
    print(f"{summary}; {seen}.")
