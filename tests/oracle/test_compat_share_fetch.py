"""ShareFetch and ShareAcknowledge: members that acquire, acknowledge, get it wrong and leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chronik.metadata.image import ResourceType
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from chronik.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from chronik.wire.messages.share_fetch import AcknowledgementBatch as FetchedBatch
from chronik.wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.oracle.asking import batch, create_topic, find_coordinator, produce_all
from tests.oracle.comparison import Pair, Server

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

UNKNOWN_TOPIC = b"\x07" * 16
JOIN_S_MAX = 60
WAIT_MS = 5_000  # for the state of partitions that are asked for the first time
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Acks = Sequence[tuple[int, int, list[int]]]
HOW: dict[str, Any] = {"unordered": ("responses", "partitions"), "erased": ("acknowledge_error_message",)}


def fetch(
    group: str | None, who: str | None, epoch: int, topic: str | None, acks: dict[int, Acks] | None = None, **more: Any
) -> Callable[[Server], ShareFetchRequest]:
    def request(server: Server) -> ShareFetchRequest:
        topic_id = UNKNOWN_TOPIC if topic is None else server.topic_ids[topic]
        values: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "partitions": (0,),
            "forgotten_topics_data": [],
        } | more
        parts = [
            FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    FetchedBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in (acks or {}).get(index, ())
                ],
            )
            for index in values.pop("partitions")
        ]
        topics = [FetchTopic(topic_id=topic_id, partitions=parts)] if parts else []
        return ShareFetchRequest(group_id=group, member_id=who, share_session_epoch=epoch, topics=topics, **values)

    return request


def acknowledge(
    group: str | None, who: str | None, epoch: int, topic: str | None, *acks: tuple[int, int, list[int]], **more: Any
) -> Callable[[Server], ShareAcknowledgeRequest]:
    def request(server: Server) -> ShareAcknowledgeRequest:
        values = {"partition": 0, "is_renew_ack": False} | more
        batches = [AcknowledgementBatch(first_offset=f, last_offset=la, acknowledge_types=t) for f, la, t in acks]
        part = AcknowledgePartition(partition_index=values.pop("partition"), acknowledgement_batches=batches)
        topic_id = UNKNOWN_TOPIC if topic is None else server.topic_ids[topic]
        topics = [AcknowledgeTopic(topic_id=topic_id, partitions=[part])]
        return ShareAcknowledgeRequest(
            group_id=group, member_id=who, share_session_epoch=epoch, topics=topics, **values
        )

    return request


def new_group(pair: Pair, suffix: str, topic: str, **configs: str) -> str:
    """A group whose partitions have state on both servers."""
    group = pair.name(suffix)
    own = {"share.auto.offset.reset": "earliest", **configs}
    entries = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in own.items()]
    resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=group, configs=entries)
    pair.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    epochs = [0, 0]
    has_partitions = [False, False]
    end = time.monotonic() + JOIN_S_MAX
    while not all(has_partitions):
        assert time.monotonic() < end, f"{group} got no partitions: {has_partitions}"
        joining = [epoch == 0 for epoch in epochs]

        def request(server: Server) -> ShareGroupHeartbeatRequest:
            index = pair.servers.index(server)
            names = [topic] if joining[index] else None  # noqa: B023
            return ShareGroupHeartbeatRequest(
                group_id=group, member_id="keeper", member_epoch=epochs[index], subscribed_topic_names=names
            )

        for index, answer in enumerate(pair.do(request, 1)):
            if not answer.error_code:
                epochs[index] = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    has_partitions[index] = True
        time.sleep(0.2)
    return group


def topic_with(pair: Pair, *sizes: int, partitions: int = 1) -> str:
    """Batches of so many records in partition 0."""
    topic = create_topic(pair, pair.name("t"), partitions)
    produce_all(pair, topic, [batch(size) for size in sizes])
    return topic


def test_requests_that_nobody_takes(pair: Pair) -> None:
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    topic = topic_with(pair, 3)
    group = new_group(pair, "g", topic)
    for version in pair.versions(ShareFetchRequest):
        for case, request in {
            "no group": fetch(None, "a", 0, topic),
            "no member": fetch(group, None, 0, topic),
            "an empty member": fetch(group, "", 0, topic),
            "a long member": fetch(group, "x" * 37, 0, topic),
            "no session": fetch(group, "a", 1, topic),
            "no session to close": fetch(group, "a", -1, topic),
            "an epoch below": fetch(group, "a", -2, topic),
            "acknowledgements at the beginning": fetch(group, "a", 0, topic, {0: [(0, 0, [ACCEPT])]}),
        }.items():
            pair.case = f"fetch: {case}"
            pair.ask(request, version, **HOW)
        for case, asked in {
            "no group": acknowledge(None, "a", 1, topic, (0, 0, [ACCEPT])),
            "no member": acknowledge(group, None, 1, topic, (0, 0, [ACCEPT])),
            "an empty member": acknowledge(group, "", 1, topic, (0, 0, [ACCEPT])),
            "no session": acknowledge(group, "a", 1, topic, (0, 0, [ACCEPT])),
            "no session to close": acknowledge(group, "a", -1, topic, (0, 0, [ACCEPT])),
            "a session cannot begin so": acknowledge(group, "a", 0, topic, (0, 0, [ACCEPT])),
        }.items():
            pair.case = f"acknowledge: {case}"
            pair.ask(asked, version, **HOW)
    pair.case = "a renewal that fetches"
    pair.ask(fetch(group, "a", 0, topic, is_renew_ack=True), 2, **HOW)


def test_a_member_alone(pair: Pair) -> None:
    """It acquires, acknowledges in every way, gets epochs wrong, and leaves."""
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    for version in pair.versions(ShareFetchRequest):
        topic = create_topic(pair, pair.name(f"t{version}"))
        produce_all(pair, topic, [batch(4), batch(3, first=4), batch(5, first=7)])
        group = new_group(pair, f"g{version}", topic)
        pair.case = "opening"
        pair.ask(fetch(group, "a", 0, topic, max_wait_ms=WAIT_MS, max_records=2), version, **HOW)
        pair.case = "wrong epochs"
        pair.ask(fetch(group, "a", 2, topic), version, **HOW)
        pair.ask(acknowledge(group, "a", 3, topic, (0, 0, [ACCEPT])), version, **HOW)
        pair.case = "accepted, released, rejected"
        pair.ask(acknowledge(group, "a", 1, topic, (0, 3, [ACCEPT, RELEASE, REJECT, GAP])), version, **HOW)
        pair.case = "the released one and new ones"
        pair.ask(fetch(group, "a", 2, topic), version, **HOW)
        pair.case = "acknowledged with a fetch"
        pair.ask(fetch(group, "a", 3, topic, {0: [(1, 1, [ACCEPT])]}), version, **HOW)
        pair.ask(acknowledge(group, "a", 4, topic, (4, 6, [RELEASE])), version, **HOW)
        pair.case = "what was released"
        pair.ask(fetch(group, "a", 5, topic), version, **HOW)
        pair.case = "nothing is left"
        pair.ask(fetch(group, "a", 6, topic), version, **HOW)
        pair.case = "below the start"
        pair.ask(acknowledge(group, "a", 7, topic, (0, 0, [ACCEPT])), version, **HOW)
        pair.case = "closing with an acknowledgement"
        pair.ask(fetch(group, "a", -1, topic, {0: [(4, 5, [ACCEPT])]}), version, **HOW)
        pair.case = "it is closed"
        pair.ask(fetch(group, "a", 8, topic), version, **HOW)
        pair.case = "another member gets the rest"
        time.sleep(0.5)
        pair.ask(fetch(group, "b", 0, topic, max_wait_ms=WAIT_MS), version, **HOW)
        pair.ask(acknowledge(group, "b", -1, topic, (6, 11, [ACCEPT])), version, **HOW)


def test_acknowledgements_that_are_wrong(pair: Pair) -> None:
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    for version in pair.versions(ShareAcknowledgeRequest):
        topic = create_topic(pair, pair.name(f"t{version}"), 2)
        produce_all(pair, topic, [batch(4), batch(4, first=4), batch(4, first=8)])
        group = new_group(pair, f"g{version}", topic)
        pair.do(fetch(group, "a", 0, topic, max_wait_ms=WAIT_MS, max_records=4), version)
        pair.do(fetch(group, "b", 0, topic, max_wait_ms=WAIT_MS, max_records=4), version)
        epoch = 1
        for case, acks in {
            "no types": [(0, 3, [])],
            "too few types": [(0, 3, [ACCEPT, ACCEPT])],
            "too many types": [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
            "a negative type": [(0, 3, [-1])],
            "a type too high": [(0, 3, [5])],
            "a renewal": [(0, 3, [RENEW])],
            "backwards": [(3, 0, [ACCEPT])],
            "overlapping": [(0, 2, [ACCEPT]), (1, 3, [ACCEPT])],
            "one offset twice": [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
            "of another member": [(4, 7, [ACCEPT])],
            "partly of another member": [(0, 5, [ACCEPT])],
            "not acquired": [(8, 11, [ACCEPT])],
            "partly not acquired": [(0, 9, [ACCEPT])],
            "far beyond": [(1000, 1001, [ACCEPT])],
            "nothing": [],
        }.items():
            pair.case = case
            pair.ask(acknowledge(group, "a", epoch, topic, *acks), version, **HOW)
            epoch += 1
        pair.case = "an unknown topic"
        pair.ask(acknowledge(group, "a", epoch, None, (0, 3, [ACCEPT])), version, **HOW)
        pair.case = "an unknown partition"
        pair.ask(acknowledge(group, "a", epoch + 1, topic, (0, 3, [ACCEPT]), partition=9), version, **HOW)
        pair.case = "a partition that nothing was acquired from"
        pair.ask(acknowledge(group, "a", epoch + 2, topic, (0, 3, [ACCEPT]), partition=1), version, **HOW)
        pair.case = "the first is still right"
        pair.ask(acknowledge(group, "a", epoch + 3, topic, (0, 3, [ACCEPT])), version, **HOW)
        pair.case = "again"
        pair.ask(acknowledge(group, "a", epoch + 4, topic, (0, 3, [ACCEPT])), version, **HOW)


def test_fetches_of_what_does_not_exist(pair: Pair) -> None:
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    for server in pair.servers:
        server.names.of("topic", UNKNOWN_TOPIC)  # which only one of them shows
    for version in pair.versions(ShareFetchRequest):
        topic = create_topic(pair, pair.name(f"t{version}"))
        produce_all(pair, topic, [batch(2)])
        group = new_group(pair, f"g{version}", topic)
        pair.case = "an unknown topic"
        pair.ask(fetch(group, "a", 0, None), version, differs="share-fetch-of-an-unknown-topic", **HOW)
        pair.ask(fetch(group, "a", 1, None), version, differs="share-fetch-of-an-unknown-topic", **HOW)
        pair.case = "an unknown partition"
        pair.ask(fetch(group, "b", 0, topic, partitions=(9,)), version, **HOW)
        pair.case = "a known one beside it"
        pair.ask(fetch(group, "b", 1, topic, partitions=(0,), max_wait_ms=WAIT_MS), version, **HOW)
        pair.case = "and the unknown one is forgotten"

        def forgets(server: Server) -> ShareFetchRequest:
            gone = [ForgottenTopic(topic_id=server.topic_ids[topic], partitions=[9])]  # noqa: B023
            return fetch(group, "b", 2, topic, partitions=(), forgotten_topics_data=gone)(server)  # noqa: B023

        pair.ask(forgets, version, **HOW)
        pair.case = "no records wanted"
        pair.ask(fetch(group, "c", 0, topic, max_records=0), version, **HOW)
        pair.ask(fetch(group, "c", 1, topic, max_bytes=0), version, **HOW)
        pair.case = "no partitions"
        pair.ask(fetch(group, "d", 0, topic, partitions=()), version, **HOW)


def test_locks_are_renewed(pair: Pair) -> None:
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    topic = topic_with(pair, 3)
    group = new_group(pair, "g", topic)
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0, "is_renew_ack": True}
    pair.ask(fetch(group, "a", 0, topic, max_wait_ms=WAIT_MS), 2, **HOW)
    pair.case = "with a fetch"
    pair.ask(fetch(group, "a", 1, topic, {0: [(0, 1, [RENEW])]}, **nothing), 2, **HOW)
    pair.case = "with an acknowledgement"
    pair.ask(acknowledge(group, "a", 2, topic, (0, 2, [RENEW, ACCEPT, RENEW]), is_renew_ack=True), 2, **HOW)
    pair.case = "what is not held"
    pair.ask(acknowledge(group, "a", 3, topic, (1, 1, [RENEW]), is_renew_ack=True), 2, **HOW)
    pair.case = "where it is not allowed"
    other = new_group(pair, "h", topic, **{"share.renew.acknowledge.enable": "false"})
    pair.ask(fetch(other, "a", 0, topic, max_wait_ms=WAIT_MS), 2, **HOW)
    pair.ask(acknowledge(other, "a", 1, topic, (0, 0, [RENEW]), is_renew_ack=True), 2, **HOW)


def test_batches_and_limits(pair: Pair) -> None:
    """How many records a member gets, and in which batches: in both modes, also what was released."""
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    for mode in (0, 1):
        topic = create_topic(pair, pair.name(f"t{mode}"))
        produce_all(pair, topic, [batch(5, first=5 * n) for n in range(6)])
        group = new_group(pair, f"g{mode}", topic)
        pair.case = f"mode {mode}"
        small = {"share_acquire_mode": mode, "max_records": 7, "batch_size": 5}
        pair.ask(fetch(group, "a", 0, topic, max_wait_ms=WAIT_MS, **small), 2, **HOW)
        pair.ask(fetch(group, "a", 1, topic, **small), 2, **HOW)
        pair.ask(acknowledge(group, "a", 2, topic, (0, 2, [RELEASE])), 2, **HOW)
        pair.ask(fetch(group, "a", 3, topic, **{**small, "max_records": 2}), 2, **HOW)
        pair.ask(fetch(group, "a", 4, topic, **small), 2, **HOW)


def test_poison_is_isolated(pair: Pair) -> None:
    """A batch that is released again and again: halved, and its records alone at last."""
    if not pair.versions(ShareFetchRequest):
        return
    find_coordinator(pair)
    topic = topic_with(pair, 8)
    group = new_group(pair, "g", topic)
    epoch = 0
    for delivery in range(14):
        pair.case = f"delivery {delivery}"
        _, answer = pair.ask(fetch(group, "a", epoch, topic, max_wait_ms=WAIT_MS if not epoch else 0), 2, **HOW)
        told = [each for t in answer.responses for part in t.partitions for each in part.acquired_records]
        epoch += 1
        if not told:
            break
        released = [(each.first_offset, each.last_offset, [RELEASE]) for each in told]
        pair.ask(acknowledge(group, "a", epoch, topic, *released), 2, **HOW)
        epoch += 1
