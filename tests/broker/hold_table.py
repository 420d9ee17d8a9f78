"""Prints how long each hostile request holds the loop of a node: `make hostile`."""

from __future__ import annotations

import sys

from tests.broker.attacks import ATTACKS, prepare
from tests.broker.holds import MeasuredNode, calibrate


def main(words: list[str]) -> None:
    with MeasuredNode() as node:
        prepare(node)
        print(f"{'request':<55}{'longest hold, ms of CPU':>24}   (this machine: {calibrate():.2f} x reference)")
        for name, send in ATTACKS.items():
            if words and not any(word in name for word in words):
                continue
            node.start_measuring()
            send(node)
            print(f"{name:<55}{node.longest_ms():>24.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
