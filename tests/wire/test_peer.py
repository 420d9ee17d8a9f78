"""The client side of the protocol, without a socket: requests, matching of responses, and the end of a connection."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.wire.calls import CORRELATION_ID_MAX, SMALL_REQUEST_BYTES
from chronik.wire.compiler import encode
from chronik.wire.framing import pack_size
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.fetch import FetchRequest, FetchResponse
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.notation import Versions
from chronik.wire.peer import NEXT, STEPS, Bounds, Peer, PeerState
from chronik.wire.peer_errors import BadAnswer, Closed, InFlightFull, PeerError, Refused, Unreachable, Unsupported
from tests.wire.brokers import api_versions, asked, joined, reply

SERVED = {
    request.api_key: request.versions
    for request in (ApiVersionsRequest, ListGroupsRequest, HeartbeatRequest, ProduceRequest)
}
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
UNSUPPORTED_VERSION = 35


def ready(**named: Any) -> Peer:
    peer = Peer("broker:9092", "test", served=SERVED, **named)
    assert peer.begin() == []
    assert peer.is_ready
    return peer


def groups(number: int = 0) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time_ms=number, error_code=0, groups=[])


def produce(size_bytes: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=bytes(size_bytes))
    return ProduceRequest(acks=0, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[data])])


# --- bytes


def test_the_bytes_of_requests_are_kafkas() -> None:
    """Written down by hand from Kafka's protocol guide: size, key, version, correlation id, client id, tags, body."""
    peer = Peer("broker:9092", "test", served={16: Versions(0, 3), 12: Versions(0, 0)})
    peer.begin()
    old_header = joined(peer.send(HEARTBEAT, HeartbeatResponse))
    assert old_header.hex(" ") == (
        "00 00 00 18 00 0c 00 00 00 00 00 00 00 04 74 65 73 74 00 01 67 00 00 00 01 00 01 6d"
    )
    flexible = joined(peer.send(ListGroupsRequest(), ListGroupsResponse))
    assert flexible.hex(" ") == "00 00 00 10 00 10 00 03 00 00 00 01 00 04 74 65 73 74 00 00"


def test_a_fresh_connection_asks_for_versions_first() -> None:
    """The newest version that we know, with the name and version of our software."""
    peer = Peer("broker:9092", "test")
    [first] = asked(joined(peer.begin()))
    assert (first.version, first.correlation_id, first.header.client_id) == (4, 0, "test")
    assert first.request.client_software_name == "chronik"
    assert peer.state is PeerState.VERSIONS


def test_a_large_request_is_not_copied() -> None:
    """Records are megabytes; the driver hands their own memory to the system."""
    peer = ready()
    assert len(peer.send(produce(SMALL_REQUEST_BYTES // 2), None)) == 1
    parts = peer.send(produce(SMALL_REQUEST_BYTES * 2), None)
    assert len(parts) > 1
    [last] = asked(joined(parts), ProduceRequest)
    assert len(last.request.topic_data[0].partition_data[0].records) == SMALL_REQUEST_BYTES * 2


def test_correlation_ids_stay_positive() -> None:
    """They are signed on the wire, and some brokers log a negative one as an error."""
    peer = ready()
    peer._correlation_id = CORRELATION_ID_MAX
    ids = [asked(joined(peer.send(ListGroupsRequest(), ListGroupsResponse)), ListGroupsRequest) for _ in range(2)]
    assert [each.correlation_id for [each] in ids] == [CORRELATION_ID_MAX, 0]


# --- versions


def test_versions_are_agreed_on_before_the_first_request() -> None:
    """A request in a version that the broker does not know would cost the connection."""
    peer = Peer("broker:9092", "test")
    peer.begin()
    with pytest.raises(Closed, match="before it is ready"):
        peer.send(ListGroupsRequest(), ListGroupsResponse)
    assert peer.feed(reply(api_versions({16: Versions(0, 2)}), 4, 0)) == []
    assert peer.take_outgoing() == []
    [first] = asked(joined(peer.send(ListGroupsRequest(), ListGroupsResponse)), ListGroupsRequest)
    assert (first.version, first.correlation_id) == (2, 1)


def test_a_broker_too_old_for_our_api_versions_is_asked_again_in_version_0() -> None:
    """It answers in version 0, whatever was asked: UNSUPPORTED_VERSION, and the range that it serves."""
    peer = Peer("broker:9092", "test")
    peer.begin()
    peer.feed(reply(api_versions({18: Versions(0, 2)}, UNSUPPORTED_VERSION), 0, 0))
    [again] = asked(joined(peer.take_outgoing()))
    assert (again.version, again.correlation_id, peer.is_ready) == (0, 1, False)
    peer.feed(reply(api_versions({18: Versions(0, 2), 16: Versions(0, 1)}), 0, 1))
    assert peer.is_ready
    assert peer.version_of(ListGroupsRequest) == 1


def test_a_broker_that_refuses_version_0_too_is_given_up() -> None:
    """Asking forever would be a loop at the speed of the network."""
    peer = Peer("broker:9092", "test")
    peer.begin()
    peer.feed(reply(api_versions({}, UNSUPPORTED_VERSION), 0, 0))
    with pytest.raises(Refused, match=r"broker:9092 for its API versions: UNSUPPORTED_VERSION"):
        peer.feed(reply(api_versions({}, UNSUPPORTED_VERSION), 0, 1))


def test_a_caller_that_asks_for_versions_itself_gets_the_old_brokers_answer_too() -> None:
    """`chronik compat` asks on a connection that is ready."""
    peer = ready()
    peer.send(ApiVersionsRequest(client_software_name="x", client_software_version="1"), ApiVersionsResponse, "mine")
    response: Any
    [(tag, response)] = peer.feed(reply(api_versions({18: Versions(0, 2)}, UNSUPPORTED_VERSION), 0, 0))
    assert (tag, response.error_code) == ("mine", UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("served", "version_min", "why"),
    [
        ("6-9", 0, "broker:9092 serves ListGroups 6-9, this client needs 0-5"),
        ("0-1", 2, "broker:9092 serves ListGroups 0-1, this client needs 2-5"),
        ("none", 0, "broker:9092 serves ListGroups none"),
    ],
)
def test_no_common_version_names_address_and_both_ranges(served: str, version_min: int, why: str) -> None:
    """The user must know which side to upgrade. The connection stays open, because nothing was sent."""
    peer = Peer("broker:9092", "test", served={16: Versions.parse(served), 12: Versions(0, 4)})
    peer.begin()
    with pytest.raises(Unsupported, match=why):
        peer.send(ListGroupsRequest(), ListGroupsResponse, None, version_min)
    assert (peer.in_flight_count, peer.in_flight_bytes) == (0, 0)
    assert asked(joined(peer.send(HEARTBEAT, HeartbeatResponse)), HeartbeatRequest)[0].correlation_id == 0


def test_an_api_that_is_not_served_is_said_before_anything_is_sent() -> None:
    """Kafka closes the connection on an unknown key, which would cost every other request in flight."""
    with pytest.raises(Unsupported, match="broker:9092 does not serve Fetch"):
        ready().version_of(FetchRequest)


# --- responses


def script() -> tuple[bytes, list[tuple[str, Any]]]:
    """Three responses, the second of which is larger than one read."""
    many = [ListedGroup(group_id=f"group-{index:06}" * 10, protocol_type="consumer") for index in range(5_000)]
    large = ListGroupsResponse(error_code=0, groups=many)
    beat = HeartbeatResponse(error_code=27)
    data = reply(groups(7), 5, 0) + reply(large, 5, 1) + reply(beat, 4, 2)
    return data, [("a", groups(7)), ("b", large), ("c", beat)]


@pytest.mark.parametrize("piece_bytes", [1, 3, 1000, 1 << 30])
def test_responses_are_matched_in_order_however_the_bytes_arrive(piece_bytes: int) -> None:
    """TCP cuts where it likes: between size and frame, inside a header, several responses at once."""
    peer = ready()
    for request, response, tag in (
        (ListGroupsRequest(), ListGroupsResponse, "a"),
        (ListGroupsRequest(), ListGroupsResponse, "b"),
        (HEARTBEAT, HeartbeatResponse, "c"),
    ):
        peer.send(request, response, tag)
    data, expected = script()
    got = [each for at in range(0, len(data), piece_bytes) for each in peer.feed(data[at : at + piece_bytes])]
    assert got == expected
    assert (peer.in_flight_count, peer.in_flight_bytes) == (0, 0)


def test_tagged_fields_in_a_response_header_are_skipped() -> None:
    """A newer broker may say more in the header than we know."""
    peer = ready()
    peer.send(ListGroupsRequest(), ListGroupsResponse, "a")
    body = bytes.fromhex("00000000 01 05 02 abcd") + encode(groups(3), 5)
    assert peer.feed(pack_size(len(body)) + body) == [("a", groups(3))]


def test_a_request_without_response_is_not_waited_for() -> None:
    """A produce with acks=0 has none; the next response belongs to the next request."""
    peer = ready()
    peer.send(produce(10), None)
    peer.send(ListGroupsRequest(), ListGroupsResponse, "a")
    assert peer.feed(reply(groups(), 5, 1)) == [("a", groups())]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a size of 1213486160 bytes"),
        (pack_size(-5), "a size of -5 bytes"),
        (pack_size(0), ""),
        (pack_size(3) + bytes(3), ""),
        (pack_size(4) + bytes(4), ""),  # no room for the tag section
        (pack_size(7) + bytes(7), "ListGroupsResponse"),
        (reply(groups(), 5, 6), "correlation id 6, where 0 is due"),
        (reply(groups(), 5, -1), "correlation id -1, where 0 is due"),
    ],
)
def test_bytes_that_are_no_response_say_where_and_why(data: bytes, why: str) -> None:
    """An HTTP port, a TLS listener or a confused proxy. The driver's user sees this text."""
    peer = ready()
    peer.send(ListGroupsRequest(), ListGroupsResponse, "a")
    with pytest.raises(BadAnswer, match=rf"broker:9092: .*{why}.*is this a plaintext Kafka listener"):
        peer.feed(data)
    assert peer.end(BadAnswer("")) == ["a"], "whoever asked is told"


def test_a_response_that_nobody_asked_for_is_not_read() -> None:
    """There is no schema to read it with."""
    with pytest.raises(BadAnswer, match="no request is waiting for it"):
        ready().feed(reply(groups(), 5, 0))


def test_a_bad_response_takes_none_of_those_before_it() -> None:
    """They arrived complete, so their callers can continue."""
    peer = ready()
    for tag in "ab":
        peer.send(ListGroupsRequest(), ListGroupsResponse, tag)
    data = reply(groups(1), 5, 0) + reply(groups(2), 5, 9)
    room = peer.room()
    room[: len(data)] = data
    responses = peer.received(len(data))
    assert next(responses) == ("a", groups(1))
    with pytest.raises(BadAnswer):
        next(responses)
    assert peer.end(BadAnswer("")) == ["b"]


def test_nothing_is_delivered_after_the_end_even_if_it_has_arrived() -> None:
    """A driver may end the peer because of a response. Later ones belong to requests that were already reported as
    failed."""
    peer = ready()
    for tag in "ab":
        peer.send(ListGroupsRequest(), ListGroupsResponse, tag)
    data = reply(groups(1), 5, 0) + reply(groups(2), 5, 1)
    room = peer.room()
    room[: len(data)] = data
    responses = peer.received(len(data))
    assert next(responses) == ("a", groups(1))
    assert peer.end(Closed("enough")) == ["b"]
    assert list(responses) == []


# --- bounds


def test_a_response_over_the_bound_is_refused_when_it_is_announced() -> None:
    """Before any memory is used for it."""
    peer = ready(bounds=Bounds(response_bytes_max=1000))
    peer.send(ListGroupsRequest(), ListGroupsResponse)
    with pytest.raises(BadAnswer, match=r"broker:9092: .*a size of 1001 bytes, at most 1000"):
        peer.feed(pack_size(1001))


def test_a_stranger_may_announce_less_than_a_broker() -> None:
    """Until the peer is ready it may be anything that listens on a port."""
    peer = Peer("broker:9092", "test")
    peer.begin()
    with pytest.raises(BadAnswer, match="at most 1048576"):
        peer.feed(pack_size((1 << 20) + 1))
    peer = ready()
    peer.send(ListGroupsRequest(), ListGroupsResponse)
    assert peer.feed(pack_size((1 << 20) + 1)) == []


def test_decoding_has_a_budget() -> None:
    """A few bytes can announce many objects."""
    peer = ready(bounds=Bounds(decode_bytes_max=1000))
    peer.send(ListGroupsRequest(), ListGroupsResponse)
    many = ListGroupsResponse(error_code=0, groups=[ListedGroup(group_id="g", protocol_type="")] * 100)
    with pytest.raises(BadAnswer, match="broker:9092"):
        peer.feed(reply(many, 5, 0))


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    """A broker that is slow must slow its client down, not fill its memory."""
    peer = ready(bounds=Bounds(in_flight_max=2))
    for tag in range(2):
        peer.send(ListGroupsRequest(), ListGroupsResponse, tag)
    with pytest.raises(InFlightFull, match="broker:9092 has not answered 2 requests"):
        peer.send(ListGroupsRequest(), ListGroupsResponse, 2)
    peer.feed(reply(groups(), 5, 0))
    [third] = asked(joined(peer.send(ListGroupsRequest(), ListGroupsResponse, 2)), ListGroupsRequest)
    assert third.correlation_id == 2


def test_requests_in_flight_are_bounded_by_their_bytes() -> None:
    """64 requests of a megabyte are more than 64 heartbeats. One alone may be larger than the bound."""
    peer = ready(bounds=Bounds(in_flight_bytes_max=1000))
    long = HeartbeatRequest(group_id="g" * 5000, generation_id=1, member_id="m")
    sent = len(joined(peer.send(long, HeartbeatResponse)))
    assert (peer.in_flight_bytes, peer.has_room) == (sent, False)
    with pytest.raises(InFlightFull, match=f"1 requests of {sent} bytes"):
        peer.send(HEARTBEAT, HeartbeatResponse)
    peer.feed(reply(HeartbeatResponse(error_code=0), 4, 0))
    assert (peer.in_flight_bytes, peer.has_room) == (0, True)


# --- the end


def test_the_end_names_those_who_wait_and_keeps_the_first_reason() -> None:
    """Later faults are consequences of the first one."""
    peer = ready()
    for tag in "ab":
        peer.send(ListGroupsRequest(), ListGroupsResponse, tag)
    first = Unreachable("first")
    assert peer.end(first) == ["a", "b"]
    assert peer.end(Closed("second")) == []
    assert (peer.fault, peer.in_flight_count, peer.in_flight_bytes) == (first, 0, 0)
    with pytest.raises(Unreachable, match="first"):
        peer.send(ListGroupsRequest(), ListGroupsResponse)


def test_the_peers_own_requests_have_no_tag_to_return() -> None:
    """No caller requested versions."""
    peer = Peer("broker:9092", "test")
    peer.begin()
    assert peer.end(Closed("x")) == []


def test_errors_for_drivers_say_what_was_waited_for() -> None:
    """Address and request: without them a log line is useless in a cluster."""
    peer = ready()
    assert str(peer.hung_up()).startswith("broker:9092 closed the connection; ")
    peer.send(HEARTBEAT, HeartbeatResponse)
    assert "broker:9092 closed the connection before it answered Heartbeat: reset" in str(peer.hung_up("reset"))
    assert "broker:9092 left a Heartbeat request without answer for 500 ms" in str(peer.overdue(500))


def test_every_error_is_a_peer_error() -> None:
    """Drivers catch one class."""
    errors = (BadAnswer, Closed, InFlightFull, Refused, Unreachable, Unsupported)
    assert all(issubclass(each, PeerError) for each in errors)


def test_the_table_of_states_is_whole() -> None:
    """Every state has its row, can end, and can be reached; those that await a response of our own have a step."""
    assert set(NEXT) == set(PeerState)
    assert all(PeerState.ENDED in after for state, after in NEXT.items() if state is not PeerState.ENDED)
    assert set().union(*NEXT.values()) == set(PeerState) - {PeerState.FRESH}
    assert set(STEPS) == {PeerState.VERSIONS, PeerState.MECHANISM, PeerState.LOGIN}


def test_a_fetch_response_owns_its_records() -> None:
    """Records are appended to a log after the next bytes have arrived in the same buffer."""
    from chronik.wire.messages.fetch import FetchableTopicResponse, PartitionData

    peer = Peer("leader", "test", served={1: Versions(18, 18)})
    peer.begin()
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], forgotten_topics_data=[], rack_id="")
    told = PartitionData(partition_index=0, error_code=0, high_watermark=0, aborted_transactions=None, records=b"abc")
    topic = FetchableTopicResponse(topic="", topic_id=bytes(16), partitions=[told])
    got: list[Any] = []
    for number in range(2):
        peer.send(request, FetchResponse)
        got += peer.feed(reply(FetchResponse(responses=[topic]), 18, number))
        told.records = b"xyz"
    assert bytes(got[0][1].responses[0].partitions[0].records) == b"abc"
