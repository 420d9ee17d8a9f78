"""Elements of a response that are created when it is encoded: the same bytes, and no objects for the collector."""

from __future__ import annotations

import gc

from chronik.broker.apis.elect_leaders import _result
from chronik.broker.made_later import MadeLater
from chronik.wire.compiler import encode
from chronik.wire.messages.elect_leaders import ElectLeadersResponse, ReplicaElectionResult

ROWS: list[tuple[int, int, str | None]] = [(0, 0, None), (1, 84, "partition 1 is led already"), (2, 3, None)]


def response(results: list[ReplicaElectionResult]) -> ElectLeadersResponse:
    return ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)


def test_it_is_encoded_as_the_list_would_be() -> None:
    """In every version, and repeatedly: a response may be encoded twice, to explain an error."""
    later = response([ReplicaElectionResult(topic="t", partition_result=MadeLater(_result, list(ROWS)).as_list)])
    listed = response([ReplicaElectionResult(topic="t", partition_result=[_result(*row) for row in ROWS])])
    for version in ElectLeadersResponse.versions:
        for _ in range(2):
            assert encode(later, version) == encode(listed, version)


def test_the_collector_does_not_look_at_what_is_in_it() -> None:
    """A response with 200,000 results would make a full collection hold the loop three times as long. After a
    collection that saw them, rows are no longer tracked."""
    rows: list[tuple[object, ...]] = [(number, 84, f"partition {number} is led already") for number in range(5_000)]
    results = MadeLater(_result, rows)
    gc.collect()
    assert len(results) == 5_000
    assert not any(gc.is_tracked(row) for row in rows)
