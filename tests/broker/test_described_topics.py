"""A description is given again only while it is still true."""

from __future__ import annotations

from chronik.broker.described_topics import DescribedTopics
from chronik.metadata.image import EMPTY, Image, Topic
from chronik.wire.messages.metadata import MetadataResponseTopic


def topic(name: str = "t") -> Topic:
    return Topic(name=name, topic_id=b"0123456789abcdef", partitions=())


def image_with(brokers: dict[int, object]) -> Image:
    made = Image()
    for slot in EMPTY.__slots__:
        setattr(made, slot, getattr(EMPTY, slot))
    made.brokers = brokers  # type: ignore[assignment]
    return made


DESCRIBED = MetadataResponseTopic(error_code=0, name="t", partitions=[])


def test_the_same_topic_among_the_same_brokers_is_described_once() -> None:
    """This is the usual case."""
    kept, asked, image = DescribedTopics(), topic(), image_with({})
    assert kept.get(asked, image) is None
    kept.keep(asked, image, DESCRIBED)
    assert kept.get(asked, image) is DESCRIBED


def test_a_changed_topic_a_changed_broker_and_a_deleted_topic_are_not() -> None:
    """An old leader, an offline replica or a topic that is gone would send clients the wrong way."""
    kept, asked, image = DescribedTopics(), topic(), image_with({})
    kept.keep(asked, image, DESCRIBED)
    assert kept.get(topic("renamed"), image) is None
    assert kept.get(asked, image_with({1: object()})) is None
    kept.forget(asked.topic_id)
    assert kept.get(asked, image) is None
