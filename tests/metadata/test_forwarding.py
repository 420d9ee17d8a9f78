"""Commands carried to the controller and back: by notes in memory, lost, late, doubled and garbled as it may happen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds, AllocateProducerIdsReply
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import Command, Reply, RequestId
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.commands.registry import COMMANDS
from chronik.metadata.errors import MetadataRefused, NotController
from chronik.metadata.forwarding import _HEAD, _REQUEST, NOT_A_MEMBER, Forwarding
from chronik.wire.error_codes import ErrorCode

REQUEST = RequestId(2, 100, 7, 5)
ALLOCATE = AllocateProducerIds(broker_id=2, broker_epoch=3)


class Pipe:
    """Notes between two nodes, 1 and 2, delivered by hand."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.sent: list[bytes] = []
        self.is_cut = False
        self.members: tuple[int, ...] = (1, 2, 3)

    def attach_notes(self, receive: Callable[[int, bytes], None], met: Callable[[str], None]) -> None:
        pass

    def send_note(self, to: int, note: bytes) -> bool:
        assert to == self.peer
        if not self.is_cut:
            self.sent.append(note)
        return not self.is_cut

    def has_died(self, peer: int) -> bool:
        return False

    def is_member(self, peer: int) -> bool:
        return peer in self.members

    def belongs_to(self, cluster_id: str) -> None:
        pass


class Pair:
    def __init__(self) -> None:
        self.asked: list[tuple[Command, RequestId]] = []
        self.answer: Reply | Exception = AllocateProducerIdsReply(first_producer_id=1000, count=1000)
        self.to_controller, self.to_asker = Pipe(1), Pipe(2)
        self.brokers: dict[int, Any] = {2: SimpleNamespace(epoch=3)}
        self.controller = Forwarding(self.to_asker, self._decide, self._newest, lambda: 42, incarnation=1)
        self.asker = Forwarding(self.to_controller, self._refuse, self._newest, lambda: 0, incarnation=2)

    def _newest(self) -> Any:
        if isinstance(self.answer, NotController):
            raise self.answer
        return SimpleNamespace(brokers=self.brokers)

    def _decide(self, command: Command, request: RequestId) -> asyncio.Future[Reply]:
        if isinstance(self.answer, NotController):
            raise self.answer
        self.asked.append((command, request))
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if isinstance(self.answer, Exception):
            done.set_exception(self.answer)
        else:
            done.set_result(self.answer)
        return done

    def _refuse(self, command: Command, request: RequestId) -> asyncio.Future[Reply]:
        raise NotController(1)

    def ask(self, command: Command = ALLOCATE, timeout_s: float = 30) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.asker.ask(1, command, REQUEST, timeout_s))

    async def deliver(self, times: int = 1) -> None:
        """Delivers requests to the controller, then its replies."""
        await asyncio.sleep(0)
        for note in self.to_controller.sent * times:
            self.controller.receive(2, note)
        self.to_controller.sent.clear()
        await asyncio.sleep(0)
        for note in self.to_asker.sent:
            self.asker.receive(1, note)
        self.to_asker.sent.clear()


def run(test: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await test(Pair())

    asyncio.run(whole())


def test_a_command_arrives_as_it_was_and_its_reply_comes_back_with_the_version_it_holds_in() -> None:
    """The caller waits for that version in its own image, so that a client that gets "created" finds the topic
    there."""

    async def test(pair: Pair) -> None:
        asked = pair.ask()
        await pair.deliver()
        reply, version = await asked
        assert (reply.first_producer_id, reply.count, version) == (1000, 1000, 42)
        ((command, request),) = pair.asked
        assert request == REQUEST
        assert (command.broker_id, command.broker_epoch) == (2, 3)  # type: ignore[attr-defined]

    run(test)


@pytest.mark.parametrize(
    ("peer", "command"),
    [
        (3, ALLOCATE),
        (3, CreateTopics(topics=[NewTopic(name="t")])),
        (2, AllocateProducerIds(broker_id=1, broker_epoch=3)),
        (2, BrokerHeartbeat(broker_id=1, broker_epoch=3)),
    ],
)
def test_a_node_speaks_for_itself_only(peer: int, command: Command) -> None:
    """Otherwise one node could stop another, or use its request ids, which the cluster would then consider answered."""

    async def test(pair: Pair) -> None:
        asked = pair.ask(command)
        await asyncio.sleep(0)
        pair.to_asker.peer = peer
        pair.controller.receive(peer, pair.to_controller.sent[0])
        assert pair.asked == []
        pair.asker.receive(1, pair.to_asker.sent[0])
        answer, _ = await asked
        assert isinstance(answer, MetadataRefused)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(test)


@pytest.mark.parametrize("command", [CreateTopics(topics=[NewTopic(name="t")]), ALLOCATE])
def test_what_a_node_asks_that_is_no_member_is_not_done(command: Command) -> None:
    async def test(pair: Pair) -> None:
        pair.to_asker.members = ()
        asked = pair.ask(command)
        await pair.deliver()
        answer, _ = await asked
        assert isinstance(answer, MetadataRefused)
        assert "chronik cluster add" in answer.message
        assert pair.asked == []

    run(test)


@pytest.mark.parametrize(
    ("brokers", "told"),
    [
        ({}, ErrorCode.STALE_BROKER_EPOCH),
        ({2: SimpleNamespace(epoch=4)}, ErrorCode.STALE_BROKER_EPOCH),
        ({2: SimpleNamespace(epoch=3)}, NOT_A_MEMBER),
    ],
)
def test_a_node_that_was_removed_may_ask_whether_it_is_registered(brokers: dict[int, Any], told: ErrorCode) -> None:
    """So that it learns that it was removed, and ends, instead of waiting for a leader that has forgotten it. A node
    that is registered and not a member takes no metadata: its heartbeat does not bring clients to it."""

    async def test(pair: Pair) -> None:
        pair.to_asker.members = ()
        pair.brokers = brokers
        asked = pair.ask(BrokerHeartbeat(broker_id=2, broker_epoch=3))
        await pair.deliver()
        answer, _ = await asked
        assert isinstance(answer, MetadataRefused)
        assert answer.error_code == told
        assert pair.asked == []

    run(test)


@pytest.mark.parametrize("command", [ALLOCATE, BrokerHeartbeat(broker_id=2, broker_epoch=3)])
def test_only_the_controller_says_that_a_node_is_not_a_member(command: Command) -> None:
    """Another node may not have heard yet that the asker was added."""

    async def test(pair: Pair) -> None:
        pair.to_asker.members = ()
        pair.answer = NotController(3)
        asked = pair.ask(command)
        await pair.deliver()
        with pytest.raises(NotController) as refused:
            await asked
        assert refused.value.leader_id == 3

    run(test)


def test_a_refusal_keeps_its_code_and_its_words() -> None:
    """The client of a follower gets the same error as the controller's own clients."""

    async def test(pair: Pair) -> None:
        pair.answer = MetadataRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, "ein Name mit Ümlaut")
        asked = pair.ask(CreateTopics(topics=[NewTopic(name="?")]))
        await pair.deliver()
        answer, version = await asked
        assert isinstance(answer, MetadataRefused)
        assert (answer.error_code, answer.message, version) == (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "ein Name mit Ümlaut",
            42,
        )

    run(test)


def test_a_node_that_is_not_the_controller_says_who_is() -> None:
    """The asker looks again, and asks under the same request id."""

    async def test(pair: Pair) -> None:
        pair.answer = NotController(3)
        asked = pair.ask()
        await pair.deliver()
        with pytest.raises(NotController) as refused:
            await asked
        assert refused.value.leader_id == 3

    run(test)


def test_a_peer_that_is_away_is_not_waited_for() -> None:
    """Nothing was sent, so there is nothing to wait for."""

    async def test(pair: Pair) -> None:
        pair.to_controller.is_cut = True
        with pytest.raises(NotController):
            await pair.ask()

    run(test)


def test_an_answer_that_is_lost_ends_with_time() -> None:
    """The command may have been applied: that is what request ids are for."""

    async def test(pair: Pair) -> None:
        with pytest.raises(NotController):
            await pair.ask(timeout_s=0.001)
        await pair.deliver()  # too late: no caller waits, so nothing happens

    run(test)


def test_a_new_leader_ends_the_wait_for_the_old_one() -> None:
    """An old leader that hangs would otherwise hold everything up."""

    async def test(pair: Pair) -> None:
        asked = pair.ask()
        await asyncio.sleep(0)
        pair.asker.leader_changed(1)
        assert not asked.done()
        pair.asker.leader_changed(3)
        with pytest.raises(NotController):
            await asked

    run(test)


def test_an_answer_counts_once_and_only_from_whom_was_asked() -> None:
    """A doubled note, or one of a node that was asked earlier, is not the answer."""

    async def test(pair: Pair) -> None:
        asked = pair.ask()
        await asyncio.sleep(0)
        for note in pair.to_controller.sent:
            pair.controller.receive(2, note)
        await asyncio.sleep(0)
        (answer,) = pair.to_asker.sent
        pair.asker.receive(3, answer)
        await asyncio.sleep(0)
        assert not asked.done()
        pair.asker.receive(1, answer)
        pair.asker.receive(1, answer)
        assert (await asked)[1] == 42

    run(test)


@pytest.mark.parametrize("note", [b"", b"\x01", b"\x01" + bytes(8), b"\x01" + bytes(40) + b"\x00", b"\x63" + bytes(60)])
def test_a_note_that_cannot_be_read_changes_nothing(note: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It comes from another release at worst: one line in the log, no answer, no harm."""

    async def test(pair: Pair) -> None:
        with caplog.at_level(logging.WARNING):
            pair.controller.receive(2, note)
        await asyncio.sleep(0)
        assert pair.asked == []
        assert pair.to_asker.sent == []

    run(test)
    assert len(caplog.records) <= 1


def test_a_command_of_a_newer_release_is_refused_at_once() -> None:
    """Without an answer, the client of a node that is upgraded already would wait until it gives up."""

    async def test(pair: Pair) -> None:
        asked = pair.ask()
        await asyncio.sleep(0)
        (note,) = pair.to_controller.sent
        at = _HEAD.size + _REQUEST.size - 1
        pair.to_controller.sent[0] = note[:at] + bytes([len(COMMANDS)]) + note[at + 1 :]
        await pair.deliver()
        refused, _ = await asked
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert not pair.asked

    run(test)


def test_the_number_of_a_command_stays() -> None:
    """Nodes of two releases talk by these numbers: new commands go to the end."""
    assert [command.__name__ for command in COMMANDS[:17]] == [
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "AlterConfigs",
        "RegisterBroker",
        "BrokerHeartbeat",
        "FenceBroker",
        "UnregisterBroker",
        "AlterPartition",
        "AllocateProducerIds",
        "UpdateFeatures",
        "ElectLeaders",
        "AlterReassignments",
        "DescribeQuorum",
        "AddVoter",
        "RemoveVoter",
        "ReportLostReplicas",
    ]
