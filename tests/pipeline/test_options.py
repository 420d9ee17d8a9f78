"""Options: every name, default and refusal of the source's contract."""

from __future__ import annotations

import pytest

from chronik.client.topology import TopicPartition
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.options import Edge, Missing, SourceOptions, parse, require_sense
from chronik.wire.offset_specs import EARLIEST, LATEST

HERE = {"kafka.bootstrap.servers": "localhost:9092"}
ORDERS = {**HERE, "subscribe": "orders"}
ORDERS_0 = TopicPartition("orders", 0)


def stream(**options: str) -> SourceOptions:
    return parse({**ORDERS, **options}, is_stream=True)


def batch(**options: str) -> SourceOptions:
    return parse({**ORDERS, **options}, is_stream=False)


def test_defaults_are_those_of_the_contract() -> None:
    """Each default decides what a query reads when the option is omitted."""
    made = stream()
    assert made.topics == ("orders",)
    assert made.starting == Edge(position=LATEST)
    assert batch().starting == Edge(position=EARLIEST)
    assert batch().ending == Edge(position=LATEST)
    assert (made.fail_on_data_loss, made.include_headers, made.isolation_level) == (True, False, 1)
    assert made.max_offsets_per_trigger is made.min_offsets_per_trigger is made.partitions_min is None
    assert made.max_trigger_delay_ms == 15 * 60 * 1000
    assert (made.group_id, made.group_id_prefix) == (None, "spark")


def test_names_are_the_same_in_any_case() -> None:
    """Spark hands options over in lower case, users write them as they like."""
    loud = {name.upper(): value for name, value in {**HERE, "subscribe": "a, b,a", "failOnDataLoss": "FALSE"}.items()}
    made = parse(loud, is_stream=True)
    assert made.topics == ("a", "b")
    assert not made.fail_on_data_loss


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": "Earliest"}, Edge(position=EARLIEST)),
        ({"startingOffsets": "latest"}, Edge(position=LATEST)),
        (
            {"startingOffsets": '{"orders":{"0":23,"1":-2}}'},
            Edge(offsets={ORDERS_0: 23, TopicPartition("orders", 1): -2}),
        ),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":1000}}'}, Edge(timestamps_ms={ORDERS_0: 1000})),
        ({"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"orders":{"0":1}}'}, Edge(timestamp_ms=5)),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":1}}', "startingOffsets": "earliest"},
            Edge(timestamps_ms={ORDERS_0: 1}),
        ),
        ({"startingOffsets": "group", "kafka.group.id": "g"}, Edge(is_group=True)),
    ],
)
def test_where_a_stream_starts(given: dict[str, str], expected: Edge) -> None:
    """Of several ways the most specific wins, as in Spark's own source."""
    assert stream(**given).starting == expected


def test_the_other_values_are_read() -> None:
    """One line for each option that is a number, a time or a choice."""
    made = stream(
        **{
            "maxOffsetsPerTrigger": "1000",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "30s",
            "minPartitions": "8",
            "maxRecordsPerPartition": "500",
            "groupIdPrefix": "team",
            "includeHeaders": "true",
            "startingOffsetsByTimestampStrategy": "latest",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.group.id": "g",
            "kafka.max.poll.records": "7",
            "kafka.security.protocol": "plaintext",
        }
    )
    assert (made.max_offsets_per_trigger, made.min_offsets_per_trigger, made.max_trigger_delay_ms) == (1000, 10, 30_000)
    assert (made.partitions_min, made.records_per_partition_max) == (8, 500)
    assert (made.group_id, made.group_id_prefix, made.include_headers) == ("g", "team", True)
    assert (made.missing, made.isolation_level) == (Missing.LATEST, 0)
    assigned = parse({**HERE, "assign": '{"b":[1,0],"a":[2]}'}, is_stream=True).assigned
    assert assigned == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))
    assert parse({**HERE, "subscribePattern": "orders-.*"}, is_stream=True).pattern == "orders-.*"


REFUSALS = [
    ("stream", HERE, "OPTION_REQUIRED", "subscribe"),
    ("stream", {"subscribe": "orders"}, "OPTION_REQUIRED", "kafka.bootstrap.servers"),
    ("stream", {**ORDERS, "assign": "{}"}, "CONFLICTING_OPTIONS", None),
    ("stream", {**ORDERS, "subscribePattern": "a.*"}, "CONFLICTING_OPTIONS", None),
    ("stream", {**HERE, "subscribe": " , "}, "INVALID_OPTION", "subscribe"),
    ("stream", {**HERE, "subscribePattern": "("}, "INVALID_OPTION", "subscribePattern"),
    ("stream", {**HERE, "subscribePattern": ""}, "INVALID_OPTION", "subscribePattern"),
    ("stream", {**HERE, "assign": "orders"}, "INVALID_OPTION", "assign"),
    ("stream", {**HERE, "assign": '{"orders":["x"]}'}, "INVALID_OPTION", "assign"),
    ("stream", {**HERE, "assign": "{}"}, "INVALID_OPTION", "assign"),
    ("stream", {"kafka.bootstrap.servers": "a:b", "subscribe": "t"}, "INVALID_OPTION", "kafka.bootstrap.servers"),
    ("stream", {**ORDERS, "endingOffsets": "latest"}, "UNSUPPORTED_OPTION", "endingOffsets"),
    ("stream", {**ORDERS, "endingTimestamp": "5"}, "UNSUPPORTED_OPTION", "endingTimestamp"),
    ("stream", {**ORDERS, "endingOffsetsByTimestamp": "{}"}, "UNSUPPORTED_OPTION", "endingOffsetsByTimestamp"),
    ("batch", {**ORDERS, "startingOffsets": "latest"}, "INVALID_OPTION", "startingOffsets"),
    ("batch", {**ORDERS, "startingOffsets": '{"orders":{"0":-1}}'}, "INVALID_OPTION", "startingOffsets"),
    ("batch", {**ORDERS, "endingOffsets": "earliest"}, "INVALID_OPTION", "endingOffsets"),
    ("batch", {**ORDERS, "endingOffsets": '{"orders":{"0":-2}}'}, "INVALID_OPTION", "endingOffsets"),
    ("stream", {**ORDERS, "startingOffsets": '{"orders":{"0":-3}}'}, "INVALID_OPTION", "startingOffsets"),
    ("stream", {**ORDERS, "startingOffsets": '{"orders":{"0":1.5}}'}, "INVALID_OPTION", "startingOffsets"),
    ("stream", {**ORDERS, "startingOffsets": '{"orders":[0]}'}, "INVALID_OPTION", "startingOffsets"),
    ("stream", {**ORDERS, "startingOffsets": "{orders"}, "INVALID_OPTION", "startingOffsets"),
    ("stream", {**ORDERS, "startingOffsets": "first"}, "INVALID_OPTION", "startingOffsets"),
    ("stream", {**ORDERS, "startingOffsets": "group"}, "OPTION_REQUIRED", "kafka.group.id"),
    ("batch", {**ORDERS, "endingOffsets": "group"}, "INVALID_OPTION", "endingOffsets"),
    ("stream", {**ORDERS, "startingTimestamp": "-5"}, "INVALID_OPTION", "startingTimestamp"),
    ("stream", {**ORDERS, "startingTimestamp": "today"}, "INVALID_OPTION", "startingTimestamp"),
    ("stream", {**ORDERS, "failOnDataLoss": "no"}, "INVALID_OPTION", "failOnDataLoss"),
    ("stream", {**ORDERS, "minPartitions": "0"}, "INVALID_OPTION", "minPartitions"),
    ("stream", {**ORDERS, "maxRecordsPerPartition": "0"}, "INVALID_OPTION", "maxRecordsPerPartition"),
    ("stream", {**ORDERS, "maxOffsetsPerTrigger": "many"}, "INVALID_OPTION", "maxOffsetsPerTrigger"),
    ("stream", {**ORDERS, "maxTriggerDelay": "soon"}, "INVALID_OPTION", "maxTriggerDelay"),
    ("stream", {**ORDERS, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "CONFLICTING_OPTIONS", None),
    ("stream", {**ORDERS, "kafka.isolation.level": "serializable"}, "INVALID_OPTION", "kafka.isolation.level"),
    ("stream", {**ORDERS, "kafka.auto.offset.reset": "earliest"}, "UNSUPPORTED_OPTION", "kafka.auto.offset.reset"),
    ("stream", {**ORDERS, "kafka.enable.auto.commit": "true"}, "UNSUPPORTED_OPTION", "kafka.enable.auto.commit"),
    ("stream", {**ORDERS, "kafka.key.deserializer": "x"}, "UNSUPPORTED_OPTION", "kafka.key.deserializer"),
    ("stream", {**ORDERS, "kafka.value.deserializer": "x"}, "UNSUPPORTED_OPTION", "kafka.value.deserializer"),
    ("stream", {**ORDERS, "kafka.interceptor.classes": "x"}, "UNSUPPORTED_OPTION", "kafka.interceptor.classes"),
    ("stream", {**ORDERS, "kafka.security.protocol": "TLS"}, "UNSUPPORTED_SECURITY", "kafka.security.protocol"),
    ("stream", {**ORDERS, "kafka.security.protocol": "SASL_SSL"}, "UNSUPPORTED_SECURITY", "kafka.sasl.mechanism"),
    ("stream", {**ORDERS, "kafka.sasl.jaas.config": "x"}, "UNSUPPORTED_SECURITY", "kafka.sasl.jaas.config"),
    ("stream", {**ORDERS, "startingOfsets": "earliest"}, "UNKNOWN_OPTION", "startingOfsets"),
    ("stream", {**ORDERS, "kafka.bootstrap.server": "x"}, "UNKNOWN_OPTION", "kafka.bootstrap.server"),
]


@pytest.mark.parametrize(("kind", "options", "condition", "option"), REFUSALS)
def test_what_makes_no_sense_is_refused_by_name(
    kind: str, options: dict[str, str], condition: str, option: str | None
) -> None:
    """Before a query starts and not after an hour, with the option named."""
    with pytest.raises(PipelineError) as refused:
        parse(options, is_stream=kind == "stream")
    assert refused.value.condition == condition
    assert option is None or refused.value.parameters["option"] == option
    assert str(refused.value).startswith(f"[{condition}] ")


def test_a_misspelt_option_is_answered_with_the_nearest_one() -> None:
    """Options are strings in code that no type checker reads."""
    with pytest.raises(PipelineError, match="did you mean 'startingOffsets'"):
        stream(startingOfsets="earliest")


def test_no_message_shows_a_password() -> None:
    """Messages end in logs."""
    with pytest.raises(PipelineError) as refused:
        stream(**{"kafka.sasl.jaas.config": "password='secret'"})
    assert "secret" not in str(refused.value)


def test_mistakes_are_told_before_it_is_known_whether_it_is_a_stream() -> None:
    """`load()` comes before that is known, and is where the user's line is."""
    require_sense(ORDERS)
    require_sense({**ORDERS, "endingOffsets": "latest"})
    with pytest.raises(PipelineError, match="UNKNOWN_OPTION"):
        require_sense({**ORDERS, "startingOfsets": "earliest"})
    with pytest.raises(PipelineError, match="INVALID_OPTION"):
        require_sense({**ORDERS, "endingOffsets": "earliest"})
