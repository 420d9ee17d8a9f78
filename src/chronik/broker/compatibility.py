"""The APIs that Chronik serves, and every deliberate difference from Kafka.

The comparison with real Kafka (`make compat`) takes its exceptions from DIFFERENCES only, and fails if one of them no
longer applies. docs/reference/compatibility.md is generated from here:

python -m chronik.broker.compatibility > docs/reference/compatibility.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from chronik.broker.api import served_apis

OPENING = """\
# Compatibility with Kafka

*Made from the handlers and tables of `src/chronik/broker` by `python -m chronik.broker.compatibility`; do not edit.*

`make compat` sends the same requests to Kafka 4.3.1 and to Chronik, and compares the responses byte by byte. Versions
that 4.3 no longer serves are compared with Kafka 3.9.1. Only three things may differ: values that a server generates
(ids, ports, the text of error messages), the order of lists that Kafka reads from hash tables, and the differences in
the last table.

## APIs

Each API is served in every version that any Kafka from 0.8.2 to 4.3 served. Other APIs are not advertised; a request
for one closes the connection, as in Kafka.
"""

DIFFERENT = """
## Differences

Each difference is verified against real Kafka: the comparison fails if it no longer exists.
"""


class Difference(NamedTuple):
    where: str  # the API, as Kafka names it
    kafka: str
    chronik: str
    why: str


DIFFERENCES: dict[str, Difference] = {
    "what-is-served": Difference(
        "ApiVersions",
        "lists its own APIs and, from v3 on, its features; lists Produce v0-v2, on which 4.x closes the connection, "
        "and client metrics only with a plugin that receives them",
        "lists what the table above says, and six features: eligible.leader.replicas.version, group.version, "
        "share.version, streams.version, transaction.version and chronik.format",
        "Clients see exactly what is served. Kafka's other features control its own upgrades.",
    ),
    "auto-create-at-once": Difference(
        "Metadata",
        "answers UNKNOWN_TOPIC_OR_PARTITION while it creates a topic; the client retries",
        "waits until the topic is created, and returns its leaders",
        "Saves a round trip and an error; clients accept both.",
    ),
    "unknown-scram-users": Difference(
        "SaslAuthenticate",
        "refuses a user that has no SCRAM credential at its first message, and a wrong password at the second",
        "sends such a user a made-up salt, and refuses it at the second message",
        "Nobody should learn which users exist.",
    ),
    "unknown-tokens": Difference(
        "SaslAuthenticate, tokenauth=true",
        "refuses a delegation token that does not exist at its first message, and accepts one that has expired until "
        "it is removed, at most an hour later",
        "refuses both at the second message, as a wrong password",
        "Nobody should learn which tokens exist, and a token must end when it says so.",
    ),
    "tokens-of-super-users": Difference(
        "CreateDelegationToken",
        "creates a token for any owner if the caller has CREATE_TOKENS on that owner, even if the owner is a super "
        "user or not a user",
        "answers DELEGATION_TOKEN_AUTHORIZATION_FAILED for a super user unless the caller is one, and "
        "INVALID_PRINCIPAL_TYPE for an owner that is not a user",
        "The permission to create tokens must not allow a caller to become a super user, and only users log in.",
    ),
    "two-scram-mechanisms": Difference(
        "AlterUserScramCredentials",
        "answers DUPLICATE_RESOURCE for a request with two mechanisms of one user",
        "sets both; the same mechanism twice is refused",
        "KIP-554 counts user and mechanism, and kafka-configs.sh sends both in one request.",
    ),
    "bearer-unanswered": Difference(
        "SaslAuthenticate, OAUTHBEARER",
        "closes the connection for another scheme than Bearer, and for a token with a scope that is not text",
        "answers SASL_AUTHENTICATION_FAILED",
        "Kafka raises an internal exception; a specific error code exists.",
    ),
    "bearer-key-algorithm": Difference(
        "SaslAuthenticate, OAUTHBEARER",
        "uses a key of the JWKS document by any algorithm of its type",
        "uses a key that names its algorithm by this algorithm only",
        "The issuer decides how its keys are used, not the token.",
    ),
    "bytes-after-a-batch": Difference(
        "Produce v3+",
        "ignores trailing bytes that are too short to be a batch",
        "answers INVALID_RECORD",
        "Bytes that a client sends are stored or refused, never dropped silently.",
    ),
    "copartitioned-topic-that-is-not-there": Difference(
        "StreamsGroupHeartbeat",
        "answers UNKNOWN_SERVER_ERROR for a copartition group whose index names no topic",
        "answers STREAMS_INVALID_TOPOLOGY",
        "Kafka raises an internal exception; a specific error code exists.",
    ),
    "tasks-are-told-again": Difference(
        "StreamsGroupHeartbeat",
        "tells a member its tasks when they change, once",
        "tells them again to a member that names other tasks than it has",
        "If the answer is lost, a member of Kafka's group waits for tasks that it was not told, or keeps some until "
        "its rebalance time-out ends.",
    ),
    "codec-that-does-not-exist": Difference(
        "Produce",
        "answers UNKNOWN_SERVER_ERROR for a batch of codec 5, 6 or 7",
        "answers UNSUPPORTED_COMPRESSION_TYPE",
        "Kafka raises an internal exception; a specific error code exists.",
    ),
    "append-time-from-a-client": Difference(
        "Produce",
        "accepts a batch marked LogAppendTime and rewrites its header",
        "answers INVALID_TIMESTAMP",
        "Only brokers set this mark; no client sends it.",
    ),
    "whole-batches": Difference(
        "Fetch",
        "fills the byte limit with a partial batch",
        "returns complete batches only, and leaves the remaining bytes to the next partition",
        "Clients discard partial batches, so sending them wastes bandwidth.",
    ),
    "portions": Difference(
        "Fetch v3+",
        "returns as much as the consumer asks for",
        "starts with half a megabyte per response, and increases that if it proves faster; any partition may come "
        "first. A consumer with min_bytes above 1 gets as much as it asks for",
        "Near the broker, librdkafka needs half the CPU for small records this way. Distant consumers soon get full "
        "responses.",
    ),
    "records-are-not-read": Difference(
        "Produce",
        "decompresses and reads every record; answers UNKNOWN_SERVER_ERROR for garbage, and recomputes the largest "
        "timestamp in the batch header",
        "checks the header and the CRC, and reads records only if the topic's settings require it",
        "The CRC proves that the producer sent these bytes, and reading all records would dominate the cost of a "
        "produce. Retention does not trust the header: it reads the records before it deletes a segment written "
        "within retention.ms, and keeps a record without a timestamp until retention.ms after its append. A lookup by "
        "time uses the header.",
    ),
    "time-below-the-start": Difference(
        "ListOffsets v7+",
        "may answer -3 (largest timestamp) with a record that DeleteRecords deleted",
        "answers with a record that exists",
        "Clients fetch from the offset they get.",
    ),
    "negative-lengths": Difference(
        "any",
        "treats any negative length of an array or string as null",
        "treats -1 as null, and closes the connection on other negative lengths",
        "No client sends them. Malformed requests are refused before they take effect.",
    ),
    "text-that-is-not-utf-8": Difference(
        "any",
        "replaces invalid UTF-8 in a string and continues",
        "closes the connection",
        "A silently changed name is worse than an error.",
    ),
    "unknown-config-operation": Difference(
        "IncrementalAlterConfigs",
        "answers UNKNOWN_SERVER_ERROR for an operation other than set, delete, append and subtract",
        "answers INVALID_REQUEST",
        "Kafka raises an internal exception; a specific error code exists.",
    ),
    "share-fetch-of-an-unknown-topic": Difference(
        "ShareFetch",
        "answers UNKNOWN_SERVER_ERROR to the whole request if a topic id is unknown",
        "answers UNKNOWN_TOPIC_ID for the partitions of that topic",
        "Kafka raises an internal exception; a specific error code exists, and other topics can be read.",
    ),
    "offsets-in-zookeeper": Difference(
        "OffsetCommit v0, OffsetFetch v0",
        "answers UNSUPPORTED_VERSION, because such offsets were kept in ZooKeeper",
        "stores them in __consumer_offsets",
        "Clients of Kafka 0.8 can commit, and their groups can upgrade.",
    ),
    "metadata-of-nothing": Difference(
        "Metadata v12+",
        "fails the whole request with UNKNOWN_SERVER_ERROR when a topic has neither name nor id",
        "answers INVALID_TOPIC_EXCEPTION for that topic",
        "Kafka raises an internal exception.",
    ),
    "repeated-at-the-last-epoch": Difference(
        "InitProducerId v3+",
        "answers UNKNOWN_SERVER_ERROR if a producer repeats the request that gave it its last epoch, 32766",
        "returns that epoch again, as for every other repeated request",
        "Kafka raises an internal exception. A producer whose response was lost can go on.",
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
