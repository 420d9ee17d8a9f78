"""Where the leader sends a consumer that says its rack (KIP-392)."""

from __future__ import annotations

import pytest

from chronik.broker.apis.fetch import replica_in_rack
from chronik.metadata.image import EMPTY, Broker, Image
from tests.raft.virtual_time import run
from tests.replication.small import One


def image(racks: dict[int, str | None], fenced: tuple[int, ...] = ()) -> Image:
    made = Image()
    for name in EMPTY.__slots__:
        setattr(made, name, getattr(EMPTY, name))
    made.features = {}
    made.brokers = {
        broker_id: Broker(broker_id, 7, b"", broker_id in fenced, False, rack, (), {}, ())
        for broker_id, rack in racks.items()
    }
    return made


CASES = [
    ({1: "a", 2: "b", 3: "c"}, "b", (), (1, 2, 3), 2),
    ({1: "a", 2: "b", 3: "b"}, "b", (), (1, 2, 3), 3),  # the one that has more
    ({1: "a", 2: "b", 3: "b"}, "b", (), (1, 2), 2),  # the other is not in sync
    ({1: "a", 2: "b", 3: "c"}, "b", (2,), (1, 2, 3), None),  # it is not alive
    ({1: "b", 2: "b", 3: "c"}, "b", (), (1, 2, 3), None),  # the leader itself is there
    ({1: "a", 2: "b", 3: "c"}, "z", (), (1, 2, 3), None),
    ({1: None, 2: None, 3: None}, "b", (), (1, 2, 3), None),
]


@pytest.mark.parametrize(("racks", "asked", "fenced", "isr", "expected"), CASES)
def test_a_consumer_is_sent_to_an_in_sync_replica_of_its_rack(
    racks: dict[int, str | None], asked: str, fenced: tuple[int, ...], isr: tuple[int, ...], expected: int | None
) -> None:
    """A replica that is near, live and in sync; otherwise the consumer reads from the leader."""

    async def story() -> None:
        one = await One.make(isr=isr)
        await one.write_durably(b"a", b"b")
        one.reports(2, 1)
        one.reports(3, 2)
        found = replica_in_rack(one.replica, asked, node_image=image(racks, fenced))
        assert (found.broker_id if found else None) == expected

    run(story)
