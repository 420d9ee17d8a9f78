"""The source options of `format("chronik")`: names, defaults, valid combinations, and refusals with reasons.

Names are those of Spark's own Kafka source, case-insensitive, so that a query migrates by changing its format. What
that source refuses is refused here too. One thing is stricter: an unknown option is an error that names the nearest
option, since a misspelt `startingOfsets` would silently start a query somewhere else.

Text in, values out; only the file of `commandConfig` is read. Nothing here knows which topics exist.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from chronik.client.addresses import parse_addresses
from chronik.client.errors import BadAddress
from chronik.client.topology import TopicPartition
from chronik.pipeline import security
from chronik.pipeline.errors import PipelineError, hint_for
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity, security_of
from chronik.pipeline.topic_pattern import topic_pattern
from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP_ID_PREFIX: Final = "spark"
MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
POLL_TIMEOUT_MS: Final = 120_000
FETCH_BYTES_MAX: Final = 4 << 20

STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
ENDING: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
ADMISSION: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
OPTIONS: Final = (
    *STRATEGIES,
    *ENDING,
    *ADMISSION,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",  # accepted without effect, like the next: requests are retried by time
    "fetchOffset.retryIntervalMs",
    security.COMMAND_CONFIG,
)
KAFKA: Final = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.client.id",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.bytes",
    *security.KEYS,
)
# Kafka consumer settings that cannot change which rows are read: accepted, so that queries can be migrated unchanged.
KAFKA_WITHOUT_EFFECT: Final = (
    "kafka.allow.auto.create.topics",
    "kafka.check.crcs",
    "kafka.client.dns.lookup",
    "kafka.client.rack",
    "kafka.connections.max.idle.ms",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.group.instance.id",
    "kafka.heartbeat.interval.ms",
    "kafka.max.poll.interval.ms",
    "kafka.max.poll.records",
    "kafka.metadata.max.age.ms",
    "kafka.metrics.num.samples",
    "kafka.metrics.recording.level",
    "kafka.partition.assignment.strategy",
    "kafka.receive.buffer.bytes",
    "kafka.reconnect.backoff.max.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.request.timeout.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.send.buffer.bytes",
    "kafka.session.timeout.ms",
    *security.WITHOUT_EFFECT,
)
REFUSED: Final = {
    "kafka.auto.offset.reset": "where a query starts is 'startingOffsets', where it goes on is its checkpoint",
    "kafka.key.deserializer": "keys are binary; cast or parse the column",
    "kafka.value.deserializer": "values are binary; cast or parse the column",
    "kafka.enable.auto.commit": "the checkpoint holds the position; the group's is committed with each batch",
    "kafka.interceptor.classes": "there is no Java consumer to intercept",
}


class Missing(Enum):
    """How to handle a partition without a record at or after the starting time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Edge:
    """Where to start or end: one position for all partitions, one for each, a time, or a group's committed offsets.

    Exactly one field is set.
    """

    position: int | None = None  # LATEST or EARLIEST
    offsets: Mapping[TopicPartition, int] | None = None  # including LATEST and EARLIEST
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None
    is_group: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: str
    starting: Edge
    topics: tuple[str, ...] | None = None  # exactly one of these three is set
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None
    ending: Edge = Edge(position=LATEST)  # of batches
    missing: Missing = Missing.ERROR
    isolation_level: int = READ_COMMITTED
    fail_on_data_loss: bool = True
    include_headers: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    group_id: str | None = None  # kafka.group.id; else <prefix>-<id of the query>
    group_id_prefix: str = GROUP_ID_PREFIX
    client_id: str = "chronik-spark"
    timeout_ms: int = POLL_TIMEOUT_MS
    fetch_bytes_max: int = FETCH_BYTES_MAX
    security: QuerySecurity = NO_QUERY_SECURITY


def parse(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Raises PipelineError with the condition for the first error."""
    given = {name.lower(): value for name, value in options.items()}
    _require_known(given, options)
    text = OptionTexts(given)
    chosen = [name for name in STRATEGIES if name.lower() in given]
    if len(chosen) != 1:
        reason = "say what to read with exactly one of subscribe, subscribePattern and assign"
        if not chosen:
            raise PipelineError("OPTION_REQUIRED", option="subscribe", reason=reason)
        raise PipelineError("CONFLICTING_OPTIONS", options=" and ".join(chosen), reason=reason)
    if is_stream:
        for name in ENDING:
            if name.lower() in given:
                raise PipelineError("UNSUPPORTED_OPTION", option=name, reason="a stream has no end; use spark.read")
    starting = _edge(text, "starting", Edge(position=LATEST if is_stream else EARLIEST))
    ending = _edge(text, "ending", Edge(position=LATEST))
    if not is_stream:
        _require_batch_edges(starting, ending)
    group_id = text.get("kafka.group.id")
    if starting.is_group and not group_id:
        reason = "startingOffsets=group starts where that group has committed"
        raise PipelineError("OPTION_REQUIRED", option="kafka.group.id", reason=reason)
    most, least = text.number("maxOffsetsPerTrigger", 1), text.number("minOffsetsPerTrigger", 1)
    if most is not None and least is not None and least > most:
        reason = f"at least {least} and at most {most} offsets per batch cannot both hold"
        raise PipelineError(
            "CONFLICTING_OPTIONS", options="minOffsetsPerTrigger and maxOffsetsPerTrigger", reason=reason
        )
    return SourceOptions(
        bootstrap=bootstrap_of(text),
        topics=_topics(text) if chosen == ["subscribe"] else None,
        pattern=_pattern(text) if chosen == ["subscribePattern"] else None,
        assigned=_assigned(text) if chosen == ["assign"] else None,
        starting=starting,
        ending=ending,
        missing=text.choice(
            "startingOffsetsByTimestampStrategy", {each.value: each for each in Missing}, Missing.ERROR
        ),
        isolation_level=text.choice(
            "kafka.isolation.level",
            {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED},
            READ_COMMITTED,
        ),
        fail_on_data_loss=text.flag("failOnDataLoss", default=True),
        include_headers=text.flag("includeHeaders", default=False),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms(text, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        partitions_min=text.number("minPartitions", 1),
        records_per_partition_max=text.number("maxRecordsPerPartition", 1),
        group_id=group_id,
        group_id_prefix=text.get("groupIdPrefix") or GROUP_ID_PREFIX,
        client_id=text.get("kafka.client.id") or "chronik-spark",
        timeout_ms=text.number("kafkaConsumer.pollTimeoutMs", 1) or POLL_TIMEOUT_MS,
        fetch_bytes_max=min(
            text.number("kafka.max.partition.fetch.bytes", 1) or FETCH_BYTES_MAX,
            text.number("kafka.fetch.max.bytes", 1) or FETCH_BYTES_MAX,
        ),
        security=security_of(given),
    )


def require_sense(options: Mapping[str, str]) -> None:
    """For callers that do not know yet whether it is a stream or a batch: raises if it is invalid for both."""
    try:
        parse(options, is_stream=True)
    except PipelineError as fault:
        if fault.condition == "UNSUPPORTED_OPTION" and fault.parameters["option"] in ENDING:
            parse(options, is_stream=False)
        else:
            raise


def _require_known(given: Mapping[str, str], as_written: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in (*OPTIONS, *KAFKA, *KAFKA_WITHOUT_EFFECT)}
    for name, written in zip(given, as_written, strict=True):
        if name in REFUSED:
            raise PipelineError("UNSUPPORTED_OPTION", option=name, reason=REFUSED[name])
        security.refuse_unsupported(name)
        if name not in known:
            raise PipelineError("UNKNOWN_OPTION", option=written, hint=hint_for(name, known.values()))


class OptionTexts:
    """Values by case-insensitive name; each parser reports what it expected."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def get(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def refuse(self, name: str, reason: str) -> PipelineError:
        return PipelineError("INVALID_OPTION", option=name, value=self.get(name), reason=reason)

    def number(self, name: str, least: int) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if not re.fullmatch(r"\s*[0-9]{1,18}\s*", value) or int(value) < least:
            raise self.refuse(name, f"a whole number from {least} on is expected")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        return bool(self.choice(name, {"true": True, "false": False}, default))

    def choice(self, name: str, choices: Mapping[str, Any], default: Any) -> Any:
        value = self.get(name)
        if value is None:
            return default
        if value.strip().lower() not in choices:
            raise self.refuse(name, f"must be one of {', '.join(choices)}")
        return choices[value.strip().lower()]

    def by_partition(self, name: str) -> dict[TopicPartition, int]:
        """`{"orders": {"0": 23, "1": -2}}`"""
        value = self.get(name) or ""
        try:
            return {
                TopicPartition(topic, _partition(partition)): _whole(number)
                for topic, partitions in json.loads(value).items()
                for partition, number in partitions.items()
            }
        except (ValueError, AttributeError, TypeError):
            raise self.refuse(name, """expected is JSON such as {"orders":{"0":23,"1":-2}}""") from None


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError
    return number


def _partition(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def bootstrap_of(text: OptionTexts) -> str:
    value = text.get("kafka.bootstrap.servers")
    if not value:
        reason = "it says where the cluster is, as host:port,host:port"
        raise PipelineError("OPTION_REQUIRED", option="kafka.bootstrap.servers", reason=reason)
    try:
        parse_addresses(value)
    except BadAddress as fault:
        raise text.refuse("kafka.bootstrap.servers", str(fault)) from None
    return value


def _topics(text: OptionTexts) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text.get("subscribe") or "").split(",") if name.strip()))
    if not names:
        raise text.refuse("subscribe", "no topic is named; write them with commas in between")
    return names


def _pattern(text: OptionTexts) -> str:
    pattern = (text.get("subscribePattern") or "").strip()
    if not pattern:
        raise text.refuse("subscribePattern", "a regular expression is expected, as in ^orders-")
    try:
        topic_pattern(pattern)
    except ValueError as error:
        raise text.refuse("subscribePattern", f"no regular expression of Java's that is known here: {error}") from None
    return pattern


def _assigned(text: OptionTexts) -> tuple[TopicPartition, ...]:
    try:
        found = [
            TopicPartition(topic, _whole(partition))
            for topic, partitions in json.loads(text.get("assign") or "").items()
            for partition in partitions
        ]
    except (ValueError, AttributeError, TypeError):
        raise text.refuse("assign", """expected is JSON such as {"orders":[0,1]}""") from None
    if not found:
        raise text.refuse("assign", "no partition is named")
    return tuple(sorted(set(found)))


def _edge(text: OptionTexts, which: str, default: Edge) -> Edge:
    """The most specific of the three forms wins, as in Spark's own source: one time, a time each, offsets."""
    if text.get(f"{which}Timestamp") is not None:
        return Edge(timestamp_ms=text.number(f"{which}Timestamp", 0))
    if text.get(f"{which}OffsetsByTimestamp") is not None:
        return Edge(timestamps_ms=text.by_partition(f"{which}OffsetsByTimestamp"))
    name = f"{which}Offsets"
    value = text.get(name)
    if value is None:
        return default
    if value.lstrip().startswith("{"):
        offsets = text.by_partition(name)
        if any(offset < EARLIEST for offset in offsets.values()):
            raise text.refuse(name, "offsets are not negative; -1 is the end of a partition, -2 its beginning")
        return Edge(offsets=offsets)
    choices = {"latest": Edge(position=LATEST), "earliest": Edge(position=EARLIEST)}
    if which == "starting":
        choices["group"] = Edge(is_group=True)
    found: Edge = text.choice(name, choices, default)
    return found


def _require_batch_edges(starting: Edge, ending: Edge) -> None:
    """Like Spark's own source, refuses batches that start at the end or end at the beginning."""
    if starting.position == LATEST or LATEST in (starting.offsets or {}).values():
        reason = "a batch that starts at the end of a partition reads nothing of it"
        raise PipelineError("INVALID_OPTION", option="startingOffsets", value="latest (-1)", reason=reason)
    if ending.position == EARLIEST or EARLIEST in (ending.offsets or {}).values():
        reason = "a batch that ends at the beginning of a partition reads nothing of it"
        raise PipelineError("INVALID_OPTION", option="endingOffsets", value="earliest (-2)", reason=reason)


def _duration_ms(text: OptionTexts, name: str, default: int) -> int:
    """`15m`, `30s`, `500ms`, `2h`, `1d`; a plain number is milliseconds, as in Spark."""
    value = text.get(name)
    if value is None:
        return default
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*(ms|s|m|min|h|d)?\s*", value.lower())
    if found is None:
        raise text.refuse(name, "a time is expected, as in 15m, 30s or 500ms")
    factor = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}[found[2] or "ms"]
    return int(found[1]) * factor
