"""What Chronik serves of Kafka's protocol, and every place where it answers otherwise than Kafka on purpose.

The comparison with real Kafkas (`make compat`) takes its exceptions from DIFFERENCES and from nowhere else, and fails
when one of them has gone. docs/compatibility.md is written from here:

python -m chronik.broker.compatibility > docs/compatibility.md
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    where: str  # the API, as Kafka names it
    kafka: str
    chronik: str
    why: str


DIFFERENCES: dict[str, Difference] = {
    "auto-create-at-once": Difference(
        "Metadata",
        "answers UNKNOWN_TOPIC_OR_PARTITION for a topic that it is about to create; the client asks again",
        "answers when the topic exists, with its leaders",
        "One round trip and one error less; clients take both.",
    ),
    "metadata-of-nothing": Difference(
        "Metadata v12+",
        "fails the whole request with UNKNOWN_SERVER_ERROR when a topic has neither name nor id",
        "answers INVALID_TOPIC_EXCEPTION for that topic",
        "An exception inside Kafka that no client can mean to provoke.",
    ),
}
