"""Admits the transactional batches of a Produce request.

Before the first batch of a transaction on a partition, the transaction's coordinator must know the partition; otherwise
no marker would ever end the transaction there. From v12 on, the coordinator is asked to add the partition; before, to
verify that the producer has added it. The log creates a guard before the request and accepts the batch only if the
guard is still current afterwards. If the transaction is already open on the partition, no request is needed.

A produce request belongs to one transaction: it names a transactional id, and its transactional batches have one
producer id and epoch. Otherwise the whole request is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.broker.produced import Look
from chronik.broker.transaction_errors import PRODUCE_ADDS_SINCE, told_to_producer
from chronik.runtime.units import NS_PER_MS
from chronik.storage.errors import InvalidProducerEpoch
from chronik.wire.batches import ATTRIBUTES_AT, MAGIC, MAGIC_AT, TRANSACTIONAL, BatchView
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.replication.replica import Replica
    from chronik.storage.transaction_guards import Guard
    from chronik.wire.messages.produce import ProduceRequest

FIRST_PAUSE_MS: Final = 1
LOW_ATTRIBUTES_AT: Final = ATTRIBUTES_AT + 1


class MustAsk(Exception):
    """The batch is the first one of its transaction on the partition."""


class Transactional(NamedTuple):
    """A transactional batch of a request, and the replica that it is appended to."""

    key: int  # identifies a part of the request: the id of its data
    topic_name: str
    header: BatchView
    replica: Replica


class Admission:
    """The results for the batches of one request, by the id of their data."""

    __slots__ = ("guards", "refused")

    def __init__(self) -> None:
        self.guards: dict[int, Guard] = {}
        self.refused: dict[int, tuple[ErrorCode, str]] = {}  # error and reason for the client


ADMITTED: Final = Admission()  # without a request to a coordinator


def is_transactional(data: object) -> bool:
    """Whether the batch claims to be transactional; nothing is checked yet."""
    return (
        type(data) is memoryview
        and len(data) > LOW_ATTRIBUTES_AT
        and data[MAGIC_AT] == MAGIC
        and data[LOW_ATTRIBUTES_AT] & TRANSACTIONAL != 0
    )


def header_of(verdict: object) -> BatchView | None:
    """The header of a validated transactional batch; None for any other."""
    header = verdict.batch if isinstance(verdict, Look) else verdict
    return header if isinstance(header, BatchView) and header.attributes & TRANSACTIONAL else None


def refusal_of(request: ProduceRequest, headers: Iterator[BatchView]) -> ErrorCode:
    """Why a request with transactional batches is refused as a whole; NONE if it is not."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    producers = {(header.producer_id, header.producer_epoch) for header in headers}
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else ErrorCode.NONE


def admitted_at_once(batch: BatchView, replica: Replica, context: Context) -> Admission:
    """For a batch of a transaction that is open on the partition. Raises MustAsk for the first batch."""
    is_tv2 = context.version >= PRODUCE_ADDS_SINCE
    guard_for = replica.log.producers.guard_for
    if guard_for(batch.producer_id, batch.producer_epoch, batch.base_sequence, is_tv2=is_tv2) is not None:
        raise MustAsk
    return ADMITTED


def must_ask(batches: list[Transactional], context: Context) -> bool:
    """Whether one of the batches is the first one of its transaction on its partition."""
    _, asked = _begin(batches, is_tv2=context.version >= PRODUCE_ADDS_SINCE)
    return bool(asked)


async def admit(request: ProduceRequest, batches: list[Transactional], context: Context) -> Admission:
    """Asks the coordinator about the partitions on which the transaction is not open.

    From v12 on, if the coordinator is still ending the producer's last transaction, it is asked again for a short time,
    because a retry would cost the client more. The end takes two rounds of fsync, usually a few milliseconds. So the
    first pause is short, and each pause is twice as long as the previous one, up to the configured pause.
    """
    settings, clock = context.services.settings, context.services.runtime.clock
    adds = context.version >= PRODUCE_ADDS_SINCE
    give_up_ns = clock.monotonic_ns() + settings.add_partitions_to_txn_retry_backoff_max_ms * NS_PER_MS
    pause_ms = FIRST_PAUSE_MS
    while True:
        admission, asked = _begin(batches, is_tv2=adds)
        if not asked or not (adds or settings.transaction_partition_verification_enable):
            return admission
        errors = await _ask(request, asked, context, verify_only=not adds)
        is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if not adds or not is_concurrent or clock.monotonic_ns() >= give_up_ns:
            break
        await asyncio.sleep(min(pause_ms, settings.add_partitions_to_txn_retry_backoff_ms) / 1000)
        pause_ms *= 2
    for key, error in errors.items():
        if error is not ErrorCode.NONE:
            admission.refused[key] = told_to_producer(error, context.version), _why(request, error)
    return admission


def _begin(batches: list[Transactional], *, is_tv2: bool) -> tuple[Admission, list[Transactional]]:
    admission, asked = Admission(), []
    for each in batches:
        header = each.header
        try:
            guard = each.replica.log.producers.guard_for(
                header.producer_id, header.producer_epoch, header.base_sequence, is_tv2=is_tv2
            )
        except InvalidProducerEpoch:
            continue  # the append reports this as well
        if guard is not None:
            admission.guards[each.key] = guard
            asked.append(each)
    return admission, asked


async def _ask(
    request: ProduceRequest, asked: list[Transactional], context: Context, *, verify_only: bool
) -> dict[int, ErrorCode]:
    assert request.transactional_id is not None, "a request without one is refused as a whole"
    header = asked[0].header
    places = {(each.topic_name, each.replica.log.partition): each.key for each in asked}
    answers = await context.services.transaction_partitions.ask(
        request.transactional_id, header.producer_id, header.producer_epoch, list(places), verify_only=verify_only
    )
    return {key: answers[place] for place, key in places.items()}


def _why(request: ProduceRequest, error: ErrorCode) -> str:
    return (
        f"the coordinator of transactional id {request.transactional_id!r} does not count the partition to the "
        f"transaction: {error.name} ({error.message})"
    )
