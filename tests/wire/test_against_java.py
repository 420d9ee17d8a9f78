"""Every message in every version is compared, byte for byte, with the Java client's generated classes.

Two releases of Kafka are used, each for the versions that it knows: 3.9.1 alone for the oldest, 4.3.1 alone for the
newest.
"""

from __future__ import annotations

import json
from itertools import takewhile
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from chronik.wire.compiler import decode, encode
from chronik.wire.errors import WireError
from chronik.wire.notation import SCALARS, zero_struct
from tests.oracle.kafka_schemas import RELEASES, KafkaMessage, kafka_message, kafka_versions
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

    def question(self, operation: str, payload: str) -> Question:
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
    oracles: dict[str, MessageOracle], release: str, message: type[Struct]
) -> None:
    """A client cannot tell us from Kafka if no bit differs; nulls, empties, extremes and lengths are where it would."""
    cases = [(meeting, *case) for meeting in meetings(release, message) for case in instances(meeting)]
    answers = oracles[release].ask(m.question("encode", json.dumps(to_json(m.shape, i))) for m, _, i in cases)
    wrong = []
    for (meeting, name, instance), java in zip(cases, answers, strict=True):
        fault = disagreement(meeting, instance, java)
        if fault:
            wrong.append(f"v{meeting.version}, {name}: {fault}\n  {str(instance)[:2000]}")
    print(f"{len(cases)} instances of {message.__name__} compared with Kafka {release}")
    assert not wrong, f"{len(wrong)} of {len(cases)} instances disagree, the first is {wrong[0]}"


def instances(meeting: Meeting) -> Iterator[tuple[str, Any]]:
    """(name, instance): the edges, and at least as many random ones as the comparison promises."""
    random = Random(f"{meeting.message.__name__} v{meeting.version}")
    yield from edges(meeting.shape)
    yield from lengths(meeting.shape)
    for number in range(RANDOM_INSTANCES):
        yield f"random {number}", make(meeting.shape, Anything(random))


def disagreement(meeting: Meeting, instance: Any, java: str | Refusal) -> str | None:
    if isinstance(java, Refusal):
        return f"Java refuses: {java.why}"
    expected = bytes.fromhex(java)
    try:
        ours = encode(instance, meeting.version)
        if ours != expected:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, expected, strict=False)))
            split = [f"{data[:same].hex()} {data[same:].hex()}" for data in (ours, expected)]
            return f"bytes differ from byte {same} on\n  ours {split[0]}\n  Java {split[1]}"
        read = decode(meeting.message, meeting.version, expected)
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
def test_what_nobody_sets_is_the_same_in_java(
    oracles: dict[str, MessageOracle], release: str, message: type[Struct]
) -> None:
    """Defaults are part of the protocol: a handler that leaves a field alone must say what Kafka's would have said."""
    structs = [(m, path, shape) for m in meetings(release, message) for path, shape in structs_in(m.shape)]
    answers = oracles[release].ask(meeting.question("default", path) for meeting, path, _ in structs)
    for (meeting, path, shape), java in zip(structs, answers, strict=True):
        where = f"v{meeting.version} {path}: {java}"
        assert isinstance(java, str), where
        ours = zero_struct(shape.struct)
        for part in shape.parts:
            if part.type is SCALARS["records"] and part.nullable:  # nullable there, required here: no client omits them
                setattr(ours, part.name, None)
        assert from_json(shape, json.loads(java)) == ours, where


def structs_in(shape: Layout, path: str = "") -> Iterator[tuple[str, Layout]]:
    yield path, shape
    for part in shape.parts:
        if part.inner:
            yield from structs_in(part.inner, f"{path}.{part.json_name}".lstrip("."))


def test_every_version_is_compared_with_every_release_that_has_it() -> None:
    """Nothing is left out but what NOT_COMPARED explains, and that only from one of the two releases."""
    all_compared, all_known = set(), set()
    for release in RELEASES:
        everything = (meeting for message in all_messages().values() for meeting in meetings(release, message))
        compared = {(meeting.message.__name__, meeting.version) for meeting in everything}
        known = {(name, v) for name, message in all_messages().items() for v in kafka_versions(release, message)}
        print(f"{len(compared)} versions compared with Kafka {release}")
        assert known - compared == {(name, version) for r, name, version in NOT_COMPARED if r == release}
        all_compared |= compared
        all_known |= known
    print(f"{len(all_compared)} versions of {len(all_messages())} messages compared in all")
    ours = {(name, version) for name, message in all_messages().items() for version in message.versions}
    assert all_compared == all_known == ours
