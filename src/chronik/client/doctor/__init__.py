"""Examines a whole cluster and reports problems in words, with the commands that fix them.

`gathering` queries the nodes, `facts` holds their answers, `checks` turns facts into findings. Only `gathering` does
I/O, and it never changes the cluster. An unanswered question is a missing fact, not an error, so the doctor works while
nodes are down and without a controller.
"""

from __future__ import annotations

from chronik.client.doctor.checks import findings_in
from chronik.client.doctor.facts import Facts
from chronik.client.doctor.findings import Finding, Severity
from chronik.client.doctor.gathering import gather

__all__ = ["Facts", "Finding", "Severity", "findings_in", "gather"]
