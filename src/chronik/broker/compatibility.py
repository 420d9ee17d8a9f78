"""What Chronik serves of Kafka's protocol, and every place where it answers otherwise than Kafka on purpose.

The comparison with real Kafkas (`make compat`) takes its exceptions from DIFFERENCES and from nowhere else, and fails
when one of them has gone. docs/compatibility.md is written from here:

python -m chronik.broker.compatibility > docs/compatibility.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from chronik.broker.api import served_apis

OPENING = """\
# Compatibility with Kafka

*Made from the handlers and tables of `src/chronik/broker` by `python -m chronik.broker.compatibility`; do not edit.*

`make compat` sends the same requests to Kafka 4.3.1, to Kafka 3.9.1 for the versions that 4.3 no longer serves, and to
Chronik, and compares the answers byte by byte. Three things may differ: what a server makes up (ids, ports, the words
of messages beside an error code), the order in which Kafka lists what its hash tables hold, and what the last table
names. Everything else that the comparison meets is equal.

## APIs

Every version that any Kafka from 0.8.2 to 4.3 served. What is not here is not advertised, and ends the connection as an
unknown API does in Kafka.
"""

DIFFERENT = """
## Where Chronik answers otherwise

Each line is held against a real Kafka: the comparison fails when the difference is gone.
"""


class Difference(NamedTuple):
    where: str  # the API, as Kafka names it
    kafka: str
    chronik: str
    why: str


DIFFERENCES: dict[str, Difference] = {
    "what-is-served": Difference(
        "ApiVersions",
        "lists its own APIs and, from v3 on, its features; does not list Produce v0-v2 truthfully (4.x closes on them)",
        "lists what the table above says, and one feature, eligible.leader.replicas.version",
        "A client learns what there is. Other features are switches for Kafka's own upgrades.",
    ),
    "auto-create-at-once": Difference(
        "Metadata",
        "answers UNKNOWN_TOPIC_OR_PARTITION for a topic that it is about to create; the client asks again",
        "answers when the topic exists, with its leaders",
        "One round trip and one error less; clients take both.",
    ),
    "bytes-after-a-batch": Difference(
        "Produce v3+",
        "drops what follows the batch of a partition when it is too short to be another",
        "answers INVALID_RECORD",
        "Bytes that a client sent are stored or refused, never dropped in silence.",
    ),
    "codec-that-does-not-exist": Difference(
        "Produce",
        "answers UNKNOWN_SERVER_ERROR for a batch of codec 5, 6 or 7",
        "answers UNSUPPORTED_COMPRESSION_TYPE",
        "An exception inside Kafka; the code that says what is wrong exists.",
    ),
    "append-time-from-a-client": Difference(
        "Produce",
        "takes a batch that claims LogAppendTime, and rewrites its header",
        "answers INVALID_TIMESTAMP",
        "Only the broker sets this time; no client sends it.",
    ),
    "whole-batches": Difference(
        "Fetch",
        "fills a limit of bytes with the beginning of a batch that does not fit",
        "returns whole batches only, so that what it does not fill is left to the next partition",
        "Clients throw such a beginning away; not sending it saves them the bytes.",
    ),
    "portions": Difference(
        "Fetch v3+",
        "returns all that a consumer asks for, however much that is",
        "begins with half a megabyte, and gives more at once where that proves faster; any partition may come first. "
        "Who waits for more than a byte (min_bytes) gets all it asks for",
        "librdkafka reads small records at half the CPU so, from a broker that is near; a client that is far away "
        "soon gets all.",
    ),
    "records-are-not-read": Difference(
        "Produce",
        "reads, and decompresses, every record of every batch; garbage is UNKNOWN_SERVER_ERROR, and the largest "
        "timestamp of the header is set anew",
        "checks the header and the CRC, and reads records only where the topic's rules need it",
        "The CRC proves that these are the producer's own bytes. Reading them all is most of what a produce costs. "
        "Retention does not believe the header: it reads the records before it deletes a segment that was written to "
        "within retention.ms, and a record without a timestamp stays until retention.ms after its append. A lookup by "
        "time goes by the header.",
    ),
    "time-below-the-start": Difference(
        "ListOffsets v7+",
        "may answer -3, the largest timestamp, with a record that DeleteRecords has taken away",
        "answers with a record that can be read",
        "An offset that is answered is one to fetch from.",
    ),
    "negative-lengths": Difference(
        "any",
        "takes any negative length of an array or a string for null",
        "takes -1 for null, and closes the connection on other negative lengths",
        "No client sends them; bytes that make no sense are refused before they are acted on.",
    ),
    "text-that-is-not-utf-8": Difference(
        "any",
        "replaces what is not UTF-8 in a string, and goes on",
        "closes the connection",
        "A name that is silently another name is worse than none.",
    ),
    "unknown-config-operation": Difference(
        "IncrementalAlterConfigs",
        "answers UNKNOWN_SERVER_ERROR for an operation other than set, delete, append and subtract",
        "answers INVALID_REQUEST",
        "An exception inside Kafka; the code that says what is wrong exists.",
    ),
    "offsets-in-zookeeper": Difference(
        "OffsetCommit v0, OffsetFetch v0",
        "answers UNSUPPORTED_VERSION, for it has no ZooKeeper any more to keep such offsets in",
        "keeps them in __consumer_offsets like all others",
        "A client of Kafka 0.8 can commit, and its group can move on to a newer one.",
    ),
    "metadata-of-nothing": Difference(
        "Metadata v12+",
        "fails the whole request with UNKNOWN_SERVER_ERROR when a topic has neither name nor id",
        "answers INVALID_TOPIC_EXCEPTION for that topic",
        "An exception inside Kafka that no client can mean to provoke.",
    ),
}


def document() -> str:
    """The whole page."""
    return "".join([OPENING, *_apis(), DIFFERENT, *_differences()])


def _apis() -> Iterator[str]:
    yield "\n| key | API | versions | what it does here |\n|---|---|---|---|\n"
    for api in served_apis().values():
        opening = (sys.modules[api.file].__doc__ or "").partition("\n\n")[0]
        words = " ".join(opening.partition(": ")[2].split())
        yield f"| {api.key} | {api.name} | {api.versions} | {words[:1].upper()}{words[1:]} |\n"


def _differences() -> Iterator[str]:
    yield "\n| where | Kafka | Chronik | why |\n|---|---|---|---|\n"
    for each in DIFFERENCES.values():
        yield f"| {each.where} | {each.kafka} | {each.chronik} | {each.why} |\n"


if __name__ == "__main__":
    sys.stdout.write(document())
