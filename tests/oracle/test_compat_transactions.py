"""The transaction coordinator: every request, in every state of a transaction, in every version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from chronik.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from chronik.wire.messages.end_txn import EndTxnRequest
from chronik.wire.messages.init_producer_id import InitProducerIdRequest
from chronik.wire.notation import Request
from tests.oracle.comparison import Pair, Server
from tests.oracle.transacting import (
    CLAIMS,
    OLDER,
    VERSION_BROKERS,
    VERSION_BUMP,
    Claim,
    Maker,
    add,
    add_offsets,
    describe,
    end,
    init,
    settle,
)

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

STATES = ("unknown", "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
ANY_ORDER = ("results_by_transaction", "results_by_topic_v3_and_below", "topic_results", "results_by_partition")
DESCRIBED = ("topics", "partitions")  # in the order of Kafka's hash tables
CHANGES = (1, 2, VERSION_BROKERS, VERSION_BUMP)  # versions whose errors differ from those of the one before, or begin
VERSION_GOES_ON = 3  # of InitProducerId: a producer may name its id and epoch

Make = Callable[[str], Callable[[Server], Request]]


def events(pair: Pair, state: str, topic: str, group: str) -> Iterator[tuple[str, int, Make]]:
    """Every request that a coordinator gets about one transactional id; with a wrong id or epoch once per error."""
    for version in pair.served(InitProducerIdRequest):
        yield "init", version, init
        if version >= VERSION_GOES_ON:
            for claim, values in CLAIMS.items():
                yield f"init with {claim}", version, partial(_init, values)
    for claim, values in CLAIMS.items():
        # The older Kafka compares id and epoch before it looks whether a transition is pending.
        adds = pair.release != OLDER or not state.startswith("Prepare") or claim == "present"
        for version in pair.served(AddPartitionsToTxnRequest):
            if adds and (claim == "present" or version in CHANGES):
                yield f"add with {claim}", version, partial(_add, version, {topic: [1, 0]}, values)
            if version >= VERSION_BROKERS:
                yield f"verify with {claim}", version, partial(_verify, version, {topic: [1, 0]}, values)
        for version in pair.served(AddOffsetsToTxnRequest):
            if adds and (claim == "present" or version in CHANGES):
                yield f"add offsets with {claim}", version, partial(_add_offsets, group, values)
        for version in pair.served(EndTxnRequest):
            if claim == "present" or version in CHANGES:
                yield f"commit with {claim}", version, partial(_end, True, values)
                yield f"abort with {claim}", version, partial(_end, False, values)


def _init(claim: Claim, who: str) -> Any:
    return init(who, claim)


def _add(version: int, partitions: dict[str, list[int]], claim: Claim, who: str) -> Any:
    return add(who, version, partitions, claim)


def _verify(version: int, partitions: dict[str, list[int]], claim: Claim, who: str) -> Any:
    return add(who, version, partitions, claim, verify_only=True)


def _add_offsets(group: str, claim: Claim, who: str) -> Any:
    return add_offsets(who, group, claim)


def _end(commits: bool, claim: Claim, who: str) -> Any:
    return end(who, commits, claim)


def test_requests_that_do_not_wait_for_each_other(pair: Pair) -> None:
    """librdkafka adds partitions and a group at the same time: the second waits for the first, and is not refused."""
    maker = Maker.create(pair)
    who = maker.make("Empty", bumps=False)
    pair.send(add_offsets(who, pair.name("group")), 0)
    pair.send(add(who, 0, {maker.topic: [0]}), 0)
    pair.send(add(who, 0, {maker.topic: [1]}), 0)
    pair.send(end(who, commits=True), 1)
    pair.receive(AddOffsetsToTxnRequest, 0)
    pair.receive(AddPartitionsToTxnRequest, 0)
    pair.receive(AddPartitionsToTxnRequest, 0)
    pair.receive(EndTxnRequest, 1)
    settle(pair, who)
    pair.ask(describe(who), 0)
    pair.send(init(who), 1)
    pair.send(init(who), 1)
    pair.receive(InitProducerIdRequest, 1)
    pair.receive(InitProducerIdRequest, 1)


@pytest.mark.parametrize(
    ("state", "bumps"),
    [(state, bumps) for state in STATES for bumps in (False, True) if state != "unknown" or not bumps],
)
def test_every_request_in_every_state(pair: Pair, state: str, bumps: bool) -> None:
    """The response, and the transaction afterwards. If nothing has changed, the next request follows."""
    if bumps and VERSION_BUMP not in pair.served(EndTxnRequest):
        pytest.skip("this Kafka does not serve it")
    maker = Maker.create(pair)
    who, before = "", None
    for what, version, make in events(pair, state, maker.topic, pair.name("group")):
        if not who:
            who = maker.make(state, bumps)
            before = pair.do(describe(who), 0)
        pair.case = f"{state} {'bumped' if bumps else 'same'}: {what}"
        answers = pair.ask(make(who), version, unordered=ANY_ORDER)
        if not state.startswith("Prepare"):
            settle(pair, who)
        # The older Kafka keeps the time of the last transaction.
        erased = ("transaction_start_time_ms",) if pair.release == OLDER and what.startswith("init") else ()
        after = pair.ask(describe(who), 0, unordered=DESCRIBED, erased=erased)
        if after != before or any(getattr(answer, "producer_id", -1) >= 0 for answer in answers):
            who = ""
