"""Every message in every version is, byte for byte, what the Java client's own generated classes write and read.

Two releases of Kafka answer, each for the versions it knows: 3.9.1 alone for the oldest, 4.3.1 alone for the newest.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from chronik.wire.compiler import decode, encode
from chronik.wire.errors import WireError
from chronik.wire.notation import zero_struct
from tests.oracle.kafka_schemas import RELEASES, KafkaMessage, kafka_message, schemas_of
from tests.oracle.message_oracle import MessageOracle, Question, Refusal
from tests.wire.instances import Anything, Layout, all_messages, edges, from_json, layout, lengths, make, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronik.wire.notation import Struct

pytestmark = pytest.mark.java

RANDOM_INSTANCES = 50  # of each message, in each version, for each release
INSTANCES_WITH_UNKNOWN_TAGS = 10

# (release, message, version): why that release is not asked. The other release still is.
NOT_COMPARED = {
    ("3.9.1", "ReadShareGroupStateSummaryResponse", 0): "early access: leader_epoch came before v0 was final",
    ("3.9.1", "ShareGroupMetadataValue", 0): "early access: metadata_hash came before v0 was final",
}


class Meeting(NamedTuple):
    """One of our messages at one version, and the release that has it too."""

    message: type[Struct]
    version: int
    kafka: KafkaMessage
    shape: Layout

    def question(self, operation: str, payload: str = "") -> Question:
        return Question(operation, self.kafka.name, self.kafka.version, payload)


def meetings(release: str, message: type[Struct]) -> Iterator[Meeting]:
    for version in message.versions:
        kafka = kafka_message(release, message, version)
        if kafka is not None and (release, message.__name__, version) not in NOT_COMPARED:
            yield Meeting(message, version, kafka, layout(message, version, kafka.fields))


@pytest.fixture(scope="session")
def oracles() -> Iterator[dict[str, MessageOracle]]:
    with MessageOracle(RELEASES[0]) as older, MessageOracle(RELEASES[1]) as newer:
        yield {RELEASES[0]: older, RELEASES[1]: newer}


for_each_release = pytest.mark.parametrize("release", RELEASES)
for_each_message = pytest.mark.parametrize("message", all_messages().values(), ids=list(all_messages()))


@for_each_release
@for_each_message
def test_our_bytes_are_javas_bytes_and_mean_the_same(
    oracles: dict[str, MessageOracle], release: str, message: type[Struct], record_property: Any
) -> None:
    """A client cannot tell us from Kafka only if no bit differs; nulls, empties, extremes and lengths are where it would."""
    cases = []
    for meeting in meetings(release, message):
        random = Random(f"{message.__name__} v{meeting.version}")
        drawn = ((f"random {n}", make(meeting.shape, Anything(random))) for n in range(RANDOM_INSTANCES))
        cases += [(meeting, name, instance) for name, instance in (*edges(meeting.shape), *lengths(meeting.shape), *drawn)]
    answers = oracles[release].ask(m.question("encode", json.dumps(to_json(m.shape, i))) for m, _, i in cases)
    wrong = []
    for (meeting, name, instance), answer in zip(cases, answers, strict=True):
        fault = disagreement(meeting, instance, answer)
        if fault:
            wrong.append(f"v{meeting.version}, {name}: {fault}\n  {str(instance)[:2000]}")
    record_property("cases", len(cases))
    assert not wrong, f"{len(wrong)} of {len(cases)} disagree, first {wrong[0]}"


def disagreement(meeting: Meeting, instance: Any, java: str | Refusal) -> str | None:
    if isinstance(java, Refusal):
        return f"Java refuses: {java.why}"
    try:
        ours = encode(instance, meeting.version).hex()
        if ours != java:
            same = next((n for n, (a, b) in enumerate(zip(ours, java, strict=False)) if a != b), min(len(ours), len(java)))
            at = same // 2 * 2
            return f"bytes differ from byte {at // 2} on\n  ours {ours[:at]} {ours[at:]}\n  Java {java[:at]} {java[at:]}"
        read = decode(meeting.message, meeting.version, bytes.fromhex(java))
    except WireError as error:
        return f"we refuse: {error}"
    return None if read == instance else f"Java's bytes mean something else to us\n  {read}"


@for_each_release
@for_each_message
def test_tagged_fields_of_the_future_are_kept_as_java_keeps_them(
    oracles: dict[str, MessageOracle], release: str, message: type[Struct]
) -> None:
    """A newer peer may add tags to any struct. They are read over, and come out again where they were."""
    cases = []
    for meeting in meetings(release, message):
        if meeting.shape.unknown_tags_from is not None:
            random = Random(f"{message.__name__} v{meeting.version} tags")
            for _ in range(INSTANCES_WITH_UNKNOWN_TAGS):
                instance = make(meeting.shape, Anything(random, tags=True))
                cases.append((meeting, instance, encode(instance, meeting.version)))
    echoed = oracles[release].ask(meeting.question("echo", ours.hex()) for meeting, _, ours in cases)
    meanings = oracles[release].ask(meeting.question("decode", ours.hex()) for meeting, _, ours in cases)
    for (meeting, instance, ours), echo, meaning in zip(cases, echoed, meanings, strict=True):
        where = f"v{meeting.version}: {instance}"
        assert echo == ours.hex(), where
        assert isinstance(meaning, str), where
        # As JSON, since Kafka's has no place for unknown tags.
        read = from_json(meeting.shape, json.loads(meaning))
        assert to_json(meeting.shape, read) == to_json(meeting.shape, instance), where
        assert decode(meeting.message, meeting.version, ours) == instance, where


@for_each_release
@for_each_message
def test_a_message_that_nobody_touched_is_the_same_in_java(
    oracles: dict[str, MessageOracle], release: str, message: type[Struct]
) -> None:
    """Defaults are part of the protocol: what a handler does not set must be what Kafka's would not have set."""
    known = list(meetings(release, message))
    for meeting, java in zip(known, oracles[release].ask(m.question("default") for m in known), strict=True):
        assert encode(zero_struct(message), meeting.version).hex() == java, f"v{meeting.version}"


def test_every_version_we_have_is_compared_with_some_release(record_testsuite_property: Any) -> None:
    """And every release's versions with ours: nothing is left out but what NOT_COMPARED explains."""
    compared = {release: {(m.message.__name__, m.version) for c in all_messages().values() for m in meetings(release, c)} for release in RELEASES}
    ours = {(name, version) for name, message in all_messages().items() for version in message.versions}
    assert set.union(*compared.values()) == ours
    for release, name, version in NOT_COMPARED:
        assert kafka_message(release, all_messages()[name], version) is not None, f"{name} v{version} is not in {release}"
    print({release: len(pairs) for release, pairs in compared.items()}, len(ours))
