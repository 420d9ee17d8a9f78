"""Runs that once broke an invariant. `chronik sim` prints an entry for each one that it finds; all must pass
forever."""

from __future__ import annotations

import pytest

from chronik.sim.faults import Fault
from chronik.sim.scenarios import run_named
from chronik.sim.sweep import report
from tests.sim.found import Found

pytestmark = pytest.mark.slow

CASES = [
    Found(
        "damage",
        seed=319,
        faults=[
            Fault(571, "kill", 1, duration_ms=3),
            Fault(4939, "rot", 1, duration_ms=1, amount=436005),
            Fault(6853, "power", 3, duration_ms=2348, other=1),
            Fault(8164, "slow link", 0, duration_ms=3766, other=1, amount=204),
            Fault(11182, "kill", 1, duration_ms=1),
        ],
        story="the checker took a damaged log, killed while it was copied again, for one that recovery had cut",
    ),
    Found(
        "access",
        seed=381,
        faults=[
            Fault(2935, "mute", 0, duration_ms=2153, other=3),
            Fault(4667, "cut", 0, duration_ms=4000, other=3),
        ],
        story="a node that learned of a new password in the middle of a login refused the right one",
    ),
    Found(
        "members",
        seed=0,
        faults=[
            Fault(300, "leave", 2, duration_ms=1000, other=3),
            Fault(900, "join", 4, duration_ms=2000, other=3),
            Fault(1800, "leave", 0, duration_ms=1000, other=3),
            Fault(1860, "power", 4, duration_ms=300),
        ],
        story="a voter back from a power cut took itself for new, and waited for a leader that needed its vote",
    ),
    Found(
        "members",
        seed=280,
        faults=[Fault(5218, "leave", 1, duration_ms=209, other=3, amount=2), Fault(11914, "kill", 3, duration_ms=1)],
        story="a node that was removed was granted leases, and whatever was to be committed waited for it",
    ),
    Found(
        "members",
        seed=61,
        faults=[
            Fault(3559, "deafen", 0, duration_ms=231, other=2),
            Fault(3797, "isolate", 3, duration_ms=3407, other=5),
            Fault(5107, "isolate", 2, duration_ms=1677),
            Fault(6231, "join", 3, duration_ms=1, other=2),
            Fault(6910, "power", 2, duration_ms=1),
            Fault(6989, "isolate", 0, duration_ms=1455, other=2),
            Fault(7544, "join", 5, duration_ms=1049, other=1),
            Fault(8809, "slow link", 0, duration_ms=1541, other=3, amount=16),
        ],
        story="the addition of a node timed out and was taken back while it registered, and the node ended",
    ),
    Found(
        "groups",
        seed=20102,
        faults=[
            Fault(1124, "isolate", 2, duration_ms=3199),
            Fault(5351, "isolate", 0, duration_ms=2049),
            Fault(6205, "deafen", 1, duration_ms=964),
            Fault(7186, "isolate", 0, duration_ms=2009),
            Fault(7510, "kill", 0, duration_ms=715),
            Fault(7823, "slow link", 0, duration_ms=910, other=1, amount=375),
            Fault(8128, "wall jump", 0, amount=86321),
            Fault(9124, "isolate", 0, duration_ms=1395),
        ],
        story="a coordinator gave up loading while its partition had too few replicas, and never tried again",
    ),
    Found(
        "consumer-groups",
        seed=26,
        faults=[
            Fault(3095, "isolate", 0, duration_ms=1363, other=2),
            Fault(5285, "wall jump", 0, other=2, amount=-83175),
        ],
        story="after a clock was set back, a group waited for the old time before it assigned partitions again",
    ),
    Found(
        "damage",
        seed=75,
        faults=[Fault(402, "kill", 2, duration_ms=60), Fault(5947, "rot", 2, duration_ms=326, amount=433148)],
        story="a wrong bit in one partition's file kept the whole node from starting",
    ),
    Found(
        "groups",
        seed=46,
        faults=[
            Fault(1263, "power", 3, duration_ms=570),
            Fault(1310, "power", 1, duration_ms=462),
            Fault(3938, "power at disk", 2, duration_ms=337, other=3, amount=1),
            Fault(6429, "power at disk", 0, duration_ms=1, other=2, amount=8),
            Fault(6523, "cut", 3, duration_ms=1, other=1),
        ],
        story="a cooperative member that the group had forgotten went on from where it was, and committed that",
    ),
    Found(
        "topics",
        seed=1409,
        faults=[
            Fault(806, "power", 3, duration_ms=120),
            Fault(832, "power", 1, duration_ms=367),
            Fault(857, "power", 2, duration_ms=837),
            Fault(1930, "sync error", 0, other=3),
        ],
        story="a node whose disk failed while it registered waited for the controller for ever",
    ),
    Found(
        "records",
        seed=518,
        faults=[
            Fault(5480, "sync error", 0, other=3),
            Fault(7144, "power at disk", 1, duration_ms=1, other=3, amount=1),
        ],
        story="what a failed sync had left in the page cache was read at the restart and taken for written",
    ),
    Found(
        "topics",
        seed=181,
        faults=[Fault(1944, "kill", 1, duration_ms=254), Fault(2440, "sync error", 1)],
        story="a node whose disk failed while it started waited for a controller instead of ending",
    ),
    Found(
        "records",
        seed=85,
        faults=[
            Fault(19, "power at disk", 3, duration_ms=1911, amount=11),
            Fault(357, "sync error", 1),
            Fault(603, "pause", 1, duration_ms=1480),
            Fault(2657, "deafen", 2, duration_ms=3500),
            Fault(3266, "kill", 3, duration_ms=52),
        ],
        story="the late answer to a node's last process was taken for the answer to its new one",
    ),
    Found(
        "topics",
        seed=3,
        faults=[Fault(1500, "wipe", 2, duration_ms=500)],
        story="a node with a new disk was sent the same append, which it could not take, as fast as it refused",
    ),
    Found(
        "metadata",
        seed=91,
        faults=[
            Fault(5940, "power", 1, duration_ms=1047),
            Fault(6400, "pause", 2, duration_ms=2927),
            Fault(8839, "power", 2, duration_ms=822),
        ],
        story="the stream to a machine that lost power behind the handshake waited for its hello for ever",
    ),
    Found(
        "metadata",
        seed=21,
        faults=[Fault(500, "slow disk", 0, duration_ms=8000, amount=65)],
        story="a leader with a slow disk answered by its lease what it had not applied, though followers had",
    ),
    Found(
        "members",
        seed=100102,
        faults=[
            Fault(1804, "leave", 0, duration_ms=3, other=2),
            Fault(2446, "leave", 2, duration_ms=104, other=5),
            Fault(9582, "kill", 3, duration_ms=1, amount=1),
        ],
        story="the last voter led in a new term before the checker first looked at it, which took that for a lost vote",
    ),
    Found(
        "members",
        seed=500199,
        faults=[
            Fault(2954, "leave", 3, duration_ms=669, other=3, amount=1),
            Fault(3752, "wall jump", 3, other=4, amount=-75602),
            Fault(4053, "join", 3, duration_ms=674, other=2),
        ],
        story="a node that came back with a new disk and an earlier clock was taken for its own past, and never joined",
    ),
    Found(
        "members",
        seed=500521,
        faults=[Fault(2477, "leave", 3, duration_ms=176, other=5, amount=2)],
        story="a node that the cluster had forgotten waited for ever to see what it was told in its own image",
    ),
    Found(
        "quorum",
        seed=600192,
        faults=[
            Fault(8744, "slow link", 0, duration_ms=2837, other=2, amount=206),
            Fault(8784, "isolate", 1, duration_ms=1695, other=1),
            Fault(8898, "sync error", 3, other=1),
        ],
        story="a founder that had led asked for votes at every tick, right after it had given its own to another",
    ),
    Found(
        "quorum",
        seed=602981,
        faults=[
            Fault(3128, "cut", 0, duration_ms=4000, other=3),
            Fault(5133, "kill", 2, duration_ms=90),
            Fault(5756, "isolate", 0, duration_ms=1953, other=2),
            Fault(5881, "deafen", 2, duration_ms=2180, other=2),
            Fault(6101, "power", 3, duration_ms=2067, other=3),
            Fault(6514, "kill", 2, duration_ms=1),
            Fault(8499, "power at disk", 3, duration_ms=1, other=1, amount=2),
        ],
        story="a leader waited half a minute for a snapshot that died with the stream on which it was sent",
    ),
    Found(
        "members",
        seed=700462,
        faults=[
            Fault(7320, "isolate", 0, duration_ms=48),
            Fault(7336, "join", 5, duration_ms=4, other=3),
            Fault(7409, "sync error", 5, other=5),
        ],
        story="a new node went on when its disk did not keep that it must not vote yet",
    ),
    Found(
        "upkeep",
        seed=720379,
        faults=[
            Fault(4104, "power at disk", 0, duration_ms=1349, other=2, amount=6),
            Fault(4357, "power", 0, duration_ms=69, other=3),
            Fault(4404, "full disk", 2, duration_ms=3637, other=2, amount=1),
            Fault(5322, "full disk", 3, duration_ms=2824, other=1, amount=1538),
            Fault(6889, "power at disk", 3, duration_ms=665, other=2, amount=16),
        ],
        story="a node that had no room for a note while it started was taken for a broken one",
    ),
    Found(
        "damage",
        seed=730154,
        faults=[
            Fault(796, "kill", 2, duration_ms=63),
            Fault(2661, "rot", 2, duration_ms=1099, amount=5),
            Fault(7148, "isolate", 0, duration_ms=1298),
            Fault(8685, "isolate", 0, duration_ms=2174),
            Fault(10523, "isolate", 0, duration_ms=1506),
        ],
        story="what a node had said of its disk arrived after the disk was lost, and was taken for a lie",
    ),
    Found(
        "records",
        seed=732811,
        faults=[
            Fault(2438, "pause", 3, duration_ms=1274, other=3),
            Fault(2727, "power", 1, duration_ms=346, other=1),
            Fault(2755, "isolate", 0, duration_ms=3454, other=3),
        ],
        story="a node that had begun again was taken to have lost what it cannot prove to have synced",
    ),
    Found(
        "recreated",
        seed=5017,
        faults=[
            Fault(1132, "recreate", 0, duration_ms=1196, amount=594532734),
            Fault(1527, "power", 3, duration_ms=1491, other=1),
            Fault(1694, "isolate", 0, duration_ms=491, other=2),
            Fault(2054, "mute", 2, duration_ms=355, other=2),
            Fault(2352, "power", 2, duration_ms=809, amount=16),
            Fault(2565, "recreate", 2, duration_ms=1412, amount=331657966),
            Fault(4383, "configure", 1, duration_ms=573, amount=224980983),
            Fault(4741, "power at disk", 1, duration_ms=340, other=2, amount=6),
            Fault(5677, "slow disk", 0, duration_ms=4354, amount=116),
            Fault(7061, "slow link", 0, duration_ms=1724, other=2, amount=171),
            Fault(7377, "configure", 0, duration_ms=1738, amount=686171359),
            Fault(8245, "isolate", 2, duration_ms=1284),
            Fault(8713, "stall disk", 0, duration_ms=2194, other=3),
            Fault(8819, "recreate", 3, duration_ms=3590, amount=740212060),
        ],
        story="a leader that cut its log behind the snapshot it had sent waited half a minute with the next one",
    ),
    Found(
        "transactions",
        seed=20061,
        faults=[],
        story="a commit of offsets that was held up on an old connection became part of a later transaction",
    ),
    Found(
        "transactions",
        seed=20175,
        story="a coordinator that had not heard of its successor told an offset from before the last transaction",
    ),
]


@pytest.mark.parametrize("found", CASES, ids=str)
def test_what_was_found_once_holds(found: Found) -> None:
    outcome = run_named(found.scenario, found.seed, found.faults)
    assert outcome.failure is None, f"{found.story}\n{report(outcome)}"
