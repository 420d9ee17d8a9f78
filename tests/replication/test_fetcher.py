"""A follower only reports positions to its leader that survive a power cut."""

from __future__ import annotations

import asyncio
from typing import Any

from chronik.peer.addresses import Address
from chronik.replication.fetcher import CUTS_AT_ONCE, FetchConfig, Fetcher
from chronik.replication.follower import Follower, Outcome
from chronik.runtime.pieces import PIECES_PER_SLICE, Work
from chronik.storage.errors import LogFull
from chronik.storage.journal_format import RecordKind
from chronik.storage.log import Log
from chronik.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.client.scripted import ScriptedBroker
from tests.peer.machines import Machines
from tests.raft.virtual_time import run
from tests.replication.small import KEY, TOPIC_ID, One, fetched


class Link:
    """A connection that only remembers."""

    is_open = True
    in_flight_count = 0

    def __init__(self) -> None:
        self.sent: list[FetchRequest] = []

    def send(self, request: FetchRequest) -> int:
        self.sent.append(request)
        return len(self.sent)


HERE = Address("host", 1)


class Network:
    async def connect(self, host: str, port: int, make: Any) -> None:
        """Connects to no peer."""


def answer(records: memoryview, start_offset: int) -> FetchResponse:
    partition = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=start_offset,
        log_start_offset=start_offset,
        aborted_transactions=None,
        records=records,
    )
    topic = FetchableTopicResponse(topic="", topic_id=TOPIC_ID, partitions=[partition])
    return FetchResponse(session_id=5, responses=[topic])


def test_an_answer_that_could_only_be_taken_in_part_is_made_durable_before_more_is_asked_for() -> None:
    """The disk becomes full between the records and the note about the log's start. The leader relies on the reported
    offset."""

    async def story() -> None:
        one = await One.make(leader=2)
        replica, link = one.replica, Link()
        fetcher = Fetcher(
            1,
            2,
            None,
            FetchConfig(retry_ms=100),
            address_of=lambda _: None,
            broker_epoch=lambda: 7,  # type: ignore[arg-type]
            incarnation_id=lambda: bytes(16),
        )
        fetcher._link = link  # type: ignore[assignment]
        fetcher.follow(Follower(KEY, 1, opened=lambda _: replica, open_=lambda _: replica))
        await asyncio.sleep(0.1)
        fetcher._receive(answer(fetched([b"a", b"b"], offset=0, epoch=1), 0), 1)
        await asyncio.sleep(0.1)
        journal, note = one.logs.journal, one.logs.journal.note

        def no_space(log: Log, kind: RecordKind, *rest: Any, **named: Any) -> None:
            if kind is RecordKind.START:
                raise LogFull("no space in the journal")
            note(log, kind, *rest, **named)

        journal.note = no_space  # type: ignore[method-assign]
        fetcher._receive(answer(fetched([b"c", b"d"], offset=2, epoch=1), 2), 2)
        journal.note = note  # type: ignore[method-assign]
        one.disk.delay_s = 0.5
        for _ in range(100):
            await asyncio.sleep(0.05)
            named = link.sent[-1].topics[0].partitions[0].fetch_offset
            assert named <= replica.log.durable_offset
        assert named == 4

    run(story)


def test_an_answer_to_a_request_of_an_earlier_connection_is_not_taken_for_one_of_this() -> None:
    """Request numbers restart, and the leader does not respond about partitions that this session has not named yet."""

    async def story() -> None:
        one = await One.make(leader=2)
        replica = one.replica
        fetcher = Fetcher(
            1,
            2,
            Network(),
            FetchConfig(),
            address_of=lambda _: HERE,
            broker_epoch=lambda: 7,  # type: ignore[arg-type]
            incarnation_id=lambda: bytes(16),
        )
        followed = Follower(KEY, 1, opened=lambda _: replica, open_=lambda _: replica)
        fetcher.follow(followed)
        followed.named_in = 3
        fetcher._rounds.add(asyncio.get_running_loop().create_future())  # nothing is sent before it is over
        await fetcher._connect()
        fetcher._receive(answer(fetched([b"a"], offset=0, epoch=1), 0), 4)
        assert replica.log.end_offset == 0

    run(story)


class Cut:
    """A follower whose log is not its leader's, and that only counts how often it is cut."""

    log = None
    error_code = 0
    named_in = 0
    leader_epoch = 0

    def __init__(self, index: int) -> None:
        self.key = (TOPIC_ID, index)
        self.cut_count = 0

    def position(self, bytes_max: int) -> FetchPartition:
        return FetchPartition(partition=self.key[1], fetch_offset=0, partition_max_bytes=bytes_max)

    def apply(self, answer: PartitionData, number: int) -> Outcome:
        self.cut_count += 1
        return Outcome.MOVED


def test_an_answer_that_cuts_many_logs_cuts_a_few_and_names_the_others_again() -> None:
    """Each cut blocks the loop for several syncs: hundreds of them in one turn would hold it for seconds."""

    async def story() -> None:
        followers, link = [Cut(index) for index in range(3 * CUTS_AT_ONCE)], Link()
        fetcher = Fetcher(
            1,
            2,
            None,
            FetchConfig(),
            address_of=lambda _: None,
            broker_epoch=lambda: 7,  # type: ignore[arg-type]
            incarnation_id=lambda: bytes(16),
        )
        fetcher._link = link  # type: ignore[assignment]
        for follower in followers:
            fetcher.follow(follower)  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        cuts = [
            PartitionData(
                partition_index=follower.key[1],
                error_code=0,
                high_watermark=0,
                aborted_transactions=None,
                records=None,
                diverging_epoch=EpochEndOffset(epoch=1, end_offset=0),
            )
            for follower in followers
        ]
        topic = FetchableTopicResponse(topic="", topic_id=TOPIC_ID, partitions=cuts)
        fetcher._receive(FetchResponse(session_id=5, responses=[topic]), 1)
        assert sum(follower.cut_count for follower in followers) == CUTS_AT_ONCE
        named = [partition.partition for partition in link.sent[-1].topics[0].partitions]
        assert sorted(named) == list(range(3 * CUTS_AT_ONCE))

    run(story)


class PreparedCut(Cut):
    """A follower whose log must be read before its truncation, in this many slices."""

    preparing: Work[None] | None = None

    def __init__(self, index: int, slices: int) -> None:
        super().__init__(index)
        self.slices_left = slices

    def apply(self, answer: PartitionData, number: int) -> Outcome:
        if not self.slices_left:
            return super().apply(answer, number)
        self.preparing = self._prepare()
        return Outcome.PREPARES

    def _prepare(self) -> Work[None]:
        while self.slices_left:
            self.slices_left -= 1
            yield PIECES_PER_SLICE


def test_logs_that_are_read_before_they_are_cut_leave_the_loop_to_others() -> None:
    """One slice of one log in each turn, however many there are; then each is named again, and cut. A partition that is
    followed no longer needs nothing."""

    async def story() -> None:
        followers, link = [PreparedCut(index, slices=3) for index in range(3)], Link()
        fetcher = Fetcher(
            1,
            2,
            None,
            FetchConfig(),
            address_of=lambda _: None,
            broker_epoch=lambda: 7,  # type: ignore[arg-type]
            incarnation_id=lambda: bytes(16),
        )
        fetcher._link = link  # type: ignore[assignment]
        for follower in followers:
            fetcher.follow(follower)  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        cuts = [
            PartitionData(
                partition_index=follower.key[1],
                error_code=0,
                high_watermark=0,
                aborted_transactions=None,
                records=None,
                diverging_epoch=EpochEndOffset(epoch=1, end_offset=0),
            )
            for follower in followers
        ]
        answer = FetchResponse(
            session_id=5, responses=[FetchableTopicResponse(topic="", topic_id=TOPIC_ID, partitions=cuts)]
        )
        fetcher._receive(answer, 1)
        fetcher.forget(followers[1].key)
        turns = 0
        while followers[2].slices_left:
            before = sum(follower.slices_left for follower in followers)
            await asyncio.sleep(0)
            turns += 1
            assert before - sum(follower.slices_left for follower in followers) <= 1
        assert turns >= 6
        assert followers[1].slices_left == 3
        await asyncio.sleep(0.1)
        named = [each.partition for request in link.sent[-2:] for topic in request.topics for each in topic.partitions]
        assert sorted(named) == [0, 2]
        fetcher._receive(answer, 9)
        assert [follower.cut_count for follower in followers] == [1, 0, 1]

    run(story)


class Secret:
    """A mechanism of one message."""

    name = "TOY"

    def first(self) -> bytes:
        return b"sesame"

    def answer(self, challenge: bytes) -> None:
        return None


def test_a_follower_logs_in_with_the_credentials_of_its_node_before_it_fetches() -> None:
    """Otherwise no replica could fetch through an inter-broker listener that requires logins."""
    told: list[bytes] = []

    def authenticate(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        told.append(bytes(request.auth_bytes))
        return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"")

    leader = ScriptedBroker(
        {
            SaslHandshakeRequest: lambda request, version: SaslHandshakeResponse(error_code=0, mechanisms=["TOY"]),
            SaslAuthenticateRequest: authenticate,
            FetchRequest: lambda request, version: FetchResponse(session_id=5, responses=[]),
        }
    )
    machines, asked_for = Machines(), list[Address]()
    machines.addresses[2] = machines.start("two", leader)

    def login(address: Address) -> Secret:
        asked_for.append(address)
        return Secret()

    async def story() -> None:
        fetcher = Fetcher(
            1,
            2,
            machines.runtime.network,
            FetchConfig(),
            address_of=machines.address_of,
            broker_epoch=lambda: 7,
            incarnation_id=lambda: bytes(16),
            login=login,
        )
        following = asyncio.ensure_future(fetcher.run())
        await asyncio.sleep(1)
        following.cancel()

    machines.run(story())
    names = [type(request).__name__.removesuffix("Request") for request, _ in leader.asked]
    assert names[:3] == ["SaslHandshake", "SaslAuthenticate", "Fetch"]
    assert (told, asked_for) == ([b"sesame"], [Address("two", 9092)])
