"""Looks at a whole cluster and says what is wrong with it, in words, with the command that fixes it.

`gathering` asks the nodes, `facts` holds what they answered, `checks` turns facts into findings. Only `gathering` does
I/O, and it never changes the cluster. A question without an answer is a missing fact, not an error, so that the doctor
works while nodes are down and without a controller.
"""

from __future__ import annotations

from chronik.client.doctor.checks import findings_in
from chronik.client.doctor.facts import Facts
from chronik.client.doctor.findings import Finding, Severity
from chronik.client.doctor.gathering import gather

__all__ = ["Facts", "Finding", "Severity", "findings_in", "gather"]
