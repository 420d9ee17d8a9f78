"""The last epochs of a producer id, held against Kafka: 32,766 is the last that a client gets, then comes a new id.

Each transactional id is brought to its last epochs by the requests that clients would need for it, which are sent
without waiting for answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chronik.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from chronik.wire.messages.end_txn import EndTxnRequest
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.oracle.comparison import Pair, Server
from tests.oracle.transacting import (
    EPOCH_BEFORE,
    OLDER,
    PRESENT,
    TIMEOUT_MS,
    VERSION_BROKERS,
    VERSION_BUMP,
    Claim,
    Maker,
    add,
    describe,
    end,
    init,
    keep,
    producer,
    settle,
)

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.xdist_group("compat")]

VERSION = 4  # of InitProducerId
EPOCH_LAST = 32_766  # that a client gets
EPOCH_REACHED = EPOCH_LAST - 2
IN_FLIGHT = 200  # requests of one id


def test_the_last_epochs_of_a_producer_id(pair: Pair) -> None:
    maker = Maker.create(pair)
    goes_on, is_fenced, transacts = (pair.name(name) for name in ("goes on", "is fenced", "transacts"))
    use_up(pair, [goes_on, is_fenced, transacts])
    a_producer_that_goes_on(pair, goes_on)
    a_producer_that_is_fenced(pair, is_fenced, maker.topic)
    transactions_with_epochs_of_their_own(pair, transacts, maker.topic)


def use_up(pair: Pair, ids: Sequence[str]) -> None:
    """Each server's own pace, so two threads; nothing that they share is touched by both."""
    with ThreadPoolExecutor(len(pair.servers)) as pool:
        given = list(pool.map(lambda server: _use_up(server, ids), pair.servers))
    pair.agree("the error and epoch of every answer", *given)


def _use_up(server: Server, ids: Sequence[str]) -> list[list[tuple[int, int]]]:
    given: list[list[tuple[int, int]]] = [[] for _ in ids]
    left = EPOCH_REACHED + 1
    while left:
        count = min(left, IN_FLIGHT)
        for who in ids:
            request = InitProducerIdRequest(transactional_id=who, transaction_timeout_ms=TIMEOUT_MS)
            for _ in range(count):
                server.send(request, VERSION, who)
        for who, found in zip(ids, given, strict=True):
            for _ in range(count):
                answer = server.receive(InitProducerIdResponse, VERSION, who).message
                found.append((answer.error_code, answer.producer_epoch))
            server.kept[f"producer {who}"] = answer.producer_id, answer.producer_epoch
        left -= count
    for who in ids:
        server.names.of("producer", producer(server, who)[0])
        assert producer(server, who)[1] == EPOCH_REACHED, server.name
    return given


def a_producer_that_goes_on(pair: Pair, who: str) -> None:
    """It sends its id and epoch each time, and repeats requests whose response is lost."""
    for _ in range(3):
        before = last_of(pair, who)
        changed(pair, who, init(who, PRESENT), VERSION)
        pair.case = "repeated"
        is_last = last_of(pair, who)[0][1] == EPOCH_LAST
        differs = "repeated-at-the-last-epoch" if is_last else None
        pair.ask(named(before, lambda claim: init(who, claim)), VERSION, differs=differs)
        shown(pair, who)
    pair.case = "of the id before"
    pair.ask(named(before, lambda claim: init(who, claim)), VERSION)
    changed(pair, who, init(who), VERSION)


def a_producer_that_is_fenced(pair: Pair, who: str, topic: str) -> None:
    """At the last epoch with a transaction open: the fence takes the one epoch that no client gets."""
    for _ in range(2):
        changed(pair, who, init(who), VERSION)
    for answer in pair.ask(add(who, 3, {topic: [0]}), 3):
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    pair.case = "fenced"
    pair.ask(init(who), VERSION)
    settle(pair, who)
    shown(pair, who)
    pair.case = "of the one that was fenced"
    pair.ask(end(who, commits=True), 4)
    pair.ask(add(who, 3, {topic: [0]}), 3)
    changed(pair, who, init(who), VERSION)


def transactions_with_epochs_of_their_own(pair: Pair, who: str, topic: str) -> None:
    if VERSION_BUMP not in pair.served(EndTxnRequest):
        return
    version = max(pair.served(AddPartitionsToTxnRequest))
    assert version >= VERSION_BROKERS
    for commits in (True, False, True, True):
        before = last_of(pair, who)
        pair.case = f"epoch {before[0][1]}"
        pair.ask(add(who, version, {topic: [1]}), version)
        changed(pair, who, end(who, commits), VERSION_BUMP)
        pair.case = f"epoch {before[0][1]} repeated"
        pair.ask(named(before, lambda claim: end(who, commits, claim)), VERSION_BUMP)  # noqa: B023 - asked at once
        pair.ask(named(before, lambda claim: end(who, not commits, claim)), VERSION_BUMP)  # noqa: B023
        pair.ask(end(who, commits, EPOCH_BEFORE), VERSION_BUMP)


# --- shared

Producers = list[tuple[int, int]]  # id and epoch, of each server


def changed(pair: Pair, who: str, asked: Callable[[Server], Any], version: int) -> None:
    """Both give the producer its next id and epoch."""
    keep(pair, who, pair.ask(asked, version))
    settle(pair, who)
    shown(pair, who)


def shown(pair: Pair, who: str) -> None:
    # The older Kafka keeps the time of the last transaction.
    erased = ("transaction_start_time_ms",) if pair.release == OLDER else ()
    pair.ask(describe(who), 0, unordered=("topics", "partitions"), erased=erased)


def last_of(pair: Pair, who: str) -> Producers:
    return [producer(server, who) for server in pair.servers]


def named(producers: Producers, make: Callable[[Claim], Callable[[Server], Any]]) -> Callable[[Server], Any]:
    """A request that names these, whatever the producer has got since."""

    def request(server: Server) -> Any:
        made = make(PRESENT)(server)
        made.producer_id, made.producer_epoch = producers[0 if server.name == "kafka" else 1]
        return made

    return request
