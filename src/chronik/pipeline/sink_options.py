"""The sink options of `format("chronik")`, and the mapping from columns of a frame to parts of a record.

Text in, values out; only the file of `commandConfig` is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.pipeline import security
from chronik.pipeline.errors import PipelineError, hint_for
from chronik.pipeline.options import OptionTexts, bootstrap_of
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity, security_of
from chronik.wire.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REQUEST_BYTES_MAX: Final = 1 << 20  # Kafka's default for a producer, and about that of a topic
DELIVERY_TIMEOUT_MS: Final = 120_000
TRANSACTION_TIMEOUT_MS: Final = 900_000  # the brokers' default maximum
OPTIONS: Final = (
    "topic",
    "exactlyOnce",
    "onTooLarge",
    "includeHeaders",  # from Spark's own sink; headers are written whenever the column exists
    "checkpointLocation",  # this and the next are Spark's own, passed to the sink as well
    "queryName",
    "path",
    security.COMMAND_CONFIG,
)
KAFKA: Final = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.compression.type",
    "kafka.max.request.size",
    "kafka.delivery.timeout.ms",
    "kafka.transaction.timeout.ms",
    *security.KEYS,
)
KAFKA_WITHOUT_EFFECT: Final = (
    "kafka.batch.size",
    "kafka.buffer.memory",
    "kafka.linger.ms",
    "kafka.max.block.ms",
    "kafka.max.in.flight.requests.per.connection",
    "kafka.request.timeout.ms",
    "kafka.retries",
    "kafka.retry.backoff.ms",
    *security.WITHOUT_EFFECT,
)
REFUSED: Final = {
    "kafka.key.serializer": "keys are written as they are; cast the column to binary or string",
    "kafka.value.serializer": "values are written as they are; cast the column to binary or string",
    "kafka.interceptor.classes": "there is no Java producer to intercept",
    "kafka.transactional.id": "transactions come with exactlyOnce, not by this option",
}
BYTES: Final = ("binary", "string")
HEADERS: Final = "array<struct<key:string,value:binary>>"
COLUMNS: Final = {"key": BYTES, "value": BYTES, "headers": (HEADERS,), "topic": ("string",), "partition": ("int",)}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: str
    topic: str | None = None  # for every row; overrides the column
    keeps_too_large: bool = False  # onTooLarge=dlq: writes a note to <topic>.dlq instead of failing
    codec: Codec = Codec.NONE
    record_bytes_max: int = REQUEST_BYTES_MAX
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    client_id: str = "chronik-spark"
    exactly_once: bool = False
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    security: QuerySecurity = NO_QUERY_SECURITY


def parse(options: Mapping[str, str]) -> SinkOptions:
    """Raises PipelineError with the condition for the first error."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in (*OPTIONS, *KAFKA, *KAFKA_WITHOUT_EFFECT)}
    known |= {"kafka.acks": "kafka.acks", "kafka.enable.idempotence": "kafka.enable.idempotence"}
    for name, written in zip(given, options, strict=True):
        if name in REFUSED:
            raise PipelineError("UNSUPPORTED_OPTION", option=name, reason=REFUSED[name])
        security.refuse_unsupported(name)
        if name not in known:
            raise PipelineError("UNKNOWN_OPTION", option=written, hint=hint_for(name, known.values()))
    text = OptionTexts(given)
    _require_idempotence(text)
    once = (text.get("exactlyOnce") or "false").strip().lower()
    if once in ("task", "batch"):
        reason = "there is one way to write exactly once: exactlyOnce=true"
        raise PipelineError("UNSUPPORTED_OPTION", option="exactlyOnce", reason=reason)
    codecs = {codec.name.lower(): codec for codec in Codec}
    return SinkOptions(
        bootstrap=bootstrap_of(text),
        topic=(text.get("topic") or "").strip() or None,
        keeps_too_large=bool(text.choice("onTooLarge", {"fail": False, "dlq": True}, False)),
        codec=text.choice("kafka.compression.type", codecs, Codec.NONE),
        record_bytes_max=text.number("kafka.max.request.size", 1) or REQUEST_BYTES_MAX,
        delivery_timeout_ms=text.number("kafka.delivery.timeout.ms", 1) or DELIVERY_TIMEOUT_MS,
        client_id=text.get("kafka.client.id") or "chronik-spark",
        exactly_once=bool(text.choice("exactlyOnce", {"true": True, "false": False, "off": False}, False)),
        transaction_timeout_ms=text.number("kafka.transaction.timeout.ms", 1) or TRANSACTION_TIMEOUT_MS,
        security=security_of(given),
    )


def _require_idempotence(text: OptionTexts) -> None:
    """A repeated task may duplicate records anyway; a resent request never does."""
    reason = "the producer is always idempotent, which takes acks=all"
    if (text.get("kafka.acks") or "all").strip().lower() not in ("all", "-1"):
        raise PipelineError("UNSUPPORTED_OPTION", option="kafka.acks", reason=reason)
    if not text.flag("kafka.enable.idempotence", default=True):
        raise PipelineError("UNSUPPORTED_OPTION", option="kafka.enable.idempotence", reason=reason)


def require_columns(columns: Sequence[tuple[str, str]], options: SinkOptions) -> None:
    """`columns` are (name, Spark type). Columns that are not part of a record are ignored, as in Spark's sink."""
    types = dict(columns)
    if "value" not in types:
        reason = "it is what gets written; name one with .selectExpr('... AS value')"
        raise PipelineError("COLUMN_REQUIRED", column="value", reason=reason)
    if "topic" not in types and options.topic is None:
        raise PipelineError(
            "COLUMN_REQUIRED", column="topic", reason="or name one for all rows with the option 'topic'"
        )
    for name, expected in COLUMNS.items():
        if name in types and types[name] not in expected:
            raise PipelineError("COLUMN_TYPE_MISMATCH", column=name, found=types[name], expected=" or ".join(expected))
