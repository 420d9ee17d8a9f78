"""Why a connection does not read, or does not start the next request: named reasons, and what each of them stops.

    reason        is there while                                                    stops reading  stops starting
    UNSERVED      the node does not serve yet                                       yes            yes
    SLOW_PEER     the peer does not read its replies                                yes            yes
    MUTED         a quota says so                                                   yes            yes
    BACKLOG       requests have arrived that are not started                        yes            no
    NO_MEMORY     the next frame waits for room in the node's memory budget         yes            no
    FULL          too many requests or bytes are in flight, between the marks       yes            no
    TURN          the node has started as many requests as it may in this turn      no             yes
    ALONE         the request under way must not be overtaken                       no             behind another
    ENDING        the connection ends with the answers to what was started          yes            yes

Two more conditions hold up a start behind another request, and have no state of their own: what is in flight reaches
its bound, and a Fetch waits for the Fetch before it, because their answers are large. Reasons are bits of a number:
asking for all of them at once is what each request costs.
"""

from __future__ import annotations

UNSERVED = 1
SLOW_PEER = 2
MUTED = 4
BACKLOG = 8
NO_MEMORY = 16
FULL = 32
TURN = 64
ALONE = 128
ENDING = 256

STOPS_READING = UNSERVED | SLOW_PEER | MUTED | BACKLOG | NO_MEMORY | FULL | ENDING
STOPS_STARTING = UNSERVED | SLOW_PEER | MUTED | TURN | ENDING
NAMES = ("UNSERVED", "SLOW_PEER", "MUTED", "BACKLOG", "NO_MEMORY", "FULL", "TURN", "ALONE", "ENDING")


def reads(reasons: int) -> bool:
    return not reasons & STOPS_READING


def may_start(reasons: int, *, is_behind_another: bool) -> bool:
    """Whether a request that has arrived may start, as far as these reasons tell."""
    return not reasons & (STOPS_STARTING | ALONE if is_behind_another else STOPS_STARTING)


def named(reasons: int) -> list[str]:
    """For logs and tests."""
    return [name for bit, name in enumerate(NAMES) if reasons & 1 << bit]
