"""What a transaction waits for and what ends it, in words.

Pure: from what brokers told, the sentences. The commands that they name can be copied as they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from chronik.cli.output import human_count, human_duration, time_text
from chronik.runtime.wording import counted, is_or_are

if TYPE_CHECKING:
    from chronik.client.admin.transactions import OpenTransaction, Transaction
    from chronik.client.topology import TopicPartition

PARTITIONS_NAMED = 5
NEVER_MS = 2**31 - 1  # the timeout of two-phase commit


class Waiting(NamedTuple):
    """Records of a partition that readers of committed records do not get yet."""

    stable_offset: int
    end_offset: int

    @property
    def record_count(self) -> int:
        return self.end_offset - self.stable_offset


def explain_transaction(
    transaction: Transaction,
    waiting: Mapping[TopicPartition, Waiting],
    leaderless: Sequence[TopicPartition],
    now_ms: int,
) -> list[str]:
    """Of a transactional id. `leaderless` are those of its partitions that have no leader now."""
    name = f"{transaction.transactional_id!r}"
    producer = f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}"
    match transaction.state:
        case "Ongoing":
            return [*_ongoing(transaction, producer, now_ms), *_behind(waiting)]
        case "PrepareCommit" | "PrepareAbort" | "PrepareEpochFence":
            outcome = "committed" if transaction.state == "PrepareCommit" else "aborted"
            return [*_decided(transaction, name, outcome, leaderless), *_behind(waiting)]
        case "CompleteCommit" | "CompleteAbort":
            outcome = "committed" if transaction.state == "CompleteCommit" else "aborted"
            return [
                f"{name} has no open transaction. Its last one was {outcome}, and every partition knows it.",
                f"It waits for nothing; {producer}, may begin the next one.",
            ]
        case "Empty":
            return [
                f"{name} has no open transaction: its producer has got an id, and nothing was written under it yet.",
                f"It waits for nothing; {producer}, may begin a transaction.",
            ]
    return [f"{name} is in state {transaction.state}."]


def _ongoing(transaction: Transaction, producer: str, now_ms: int) -> list[str]:
    age_ms = max(now_ms - transaction.start_ms, 0)
    left_ms = transaction.start_ms + transaction.timeout_ms - now_ms
    name = f"{transaction.transactional_id!r}"
    word = shlex.quote(transaction.transactional_id)
    deadline = (
        "It is prepared for two-phase commit and has no timeout: only its producer or an operator can end it."
        if transaction.timeout_ms == NEVER_MS
        else f"Otherwise broker {transaction.coordinator_id}, its coordinator, aborts it at its timeout of "
        f"{human_duration(transaction.timeout_ms)}, in {human_duration(left_ms)}."
        if left_ms > 0
        else f"Its timeout of {human_duration(transaction.timeout_ms)} has passed: broker "
        f"{transaction.coordinator_id}, its coordinator, is about to abort it."
    )
    return [
        (
            f"{name} has a transaction open since {time_text(transaction.start_ms)}, for {human_duration(age_ms)}, "
            f"on {_named(transaction.partitions)}."
        ),
        f"It waits for {producer}, to commit or abort it. {deadline}",
        f"To abort it now, and fence its producer: chronik txn abort {word}",
        (
            f"To commit it in the producer's name: chronik txn commit {word} --producer-id {transaction.producer_id} "
            f"--epoch {transaction.producer_epoch}"
        ),
    ]


def _decided(transaction: Transaction, name: str, outcome: str, leaderless: Sequence[TopicPartition]) -> list[str]:
    said = [
        f"The transaction of {name} is {outcome}: that is decided and cannot change.",
        (
            f"Its coordinator, broker {transaction.coordinator_id}, still writes markers to "
            f"{_named(transaction.partitions)}. It ends by itself when their leaders have taken them."
        ),
    ]
    if leaderless:
        verb = is_or_are(len(leaderless))
        said.append(f"{_named(leaderless)} {verb} without a leader: start a broker that has a replica in sync.")
    else:
        said.append("If this lasts for more than a few seconds, look at the logs of the coordinator and the leaders.")
    return said


def _behind(waiting: Mapping[TopicPartition, Waiting]) -> list[str]:
    return [
        f"Readers of committed records wait at offset {human_count(each.stable_offset)} of {at}: "
        f"{counted(each.record_count, 'record')} behind it."
        for at, each in sorted(waiting.items())
        if each.record_count > 0
    ]


def explain_partition(
    at: TopicPartition,
    found: Sequence[tuple[OpenTransaction, Transaction | None]],
    waiting: Waiting,
    now_ms: int,
) -> list[str]:
    """Of a partition: the transactions that are open on it, oldest first, each with its transactional id if known."""
    if not found:
        return [f"No transaction is open on {at}: readers of committed records see everything up to its end."]
    oldest = min(transaction.start_offset for transaction, _ in found)
    said = [
        (
            f"{counted(len(found), 'transaction')} {is_or_are(len(found))} open on {at}. Readers of committed records "
            f"wait at offset {human_count(oldest)}: {counted(waiting.record_count, 'record')} behind it."
        )
    ]
    for transaction, owner in sorted(found, key=lambda each: each[0].start_offset):
        producer = f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}"
        age = human_duration(max(now_ms - transaction.last_ms, 0))
        begins = f"From offset {human_count(transaction.start_offset)}: {producer}, last record {age} ago;"
        if owner is not None:
            name = shlex.quote(owner.transactional_id)
            said.append(f"{begins} it is the transaction of {owner.transactional_id!r}: chronik txn explain {name}")
        else:
            said.append(
                f"{begins} no coordinator knows it. To end it now: chronik txn abort --topic "
                f"{shlex.quote(at.topic)} --partition {at.partition} --start-offset {transaction.start_offset}"
            )
    return said


def _named(partitions: Sequence[TopicPartition]) -> str:
    if not partitions:
        return "no partition"
    more = len(partitions) - PARTITIONS_NAMED
    names = ", ".join(map(str, partitions[:PARTITIONS_NAMED]))
    return f"{names} and {more} more" if more > 0 else names
