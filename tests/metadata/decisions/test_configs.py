"""Which configs can be changed how, with Kafka's codes. The codes were read off a running Kafka 4.3.1."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterConfigs,
    ConfigChange,
    ResourceChange,
)
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import Cluster, cluster, create, new_topic

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> ResourceChange:
    configs = [ConfigChange(key=key, operation=operation, value=value) for key, operation, value in changes]
    return ResourceChange(resource_type=kind, resource_name=name, configs=configs)


def alter(on: Cluster, *resources: ResourceChange, incremental: bool = True, validate_only: bool = False) -> list[str]:
    command = AlterConfigs(resources=list(resources), incremental=incremental, validate_only=validate_only)
    return [ErrorCode.of(each.error_code).name for each in on.ask(command).resources]


def prepared() -> Cluster:
    on = cluster(1)
    create(on, new_topic("t"))
    return on


CASES = [
    (TOPIC, "nope", ("retention.ms", SET, "5"), "UNKNOWN_TOPIC_OR_PARTITION"),
    (TOPIC, "", ("retention.ms", SET, "5"), "INVALID_REQUEST"),
    (TOPIC, "t", ("retention.ms", SET, "5"), "NONE"),
    (TOPIC, "t", ("retention.ms", SET, "-7"), "INVALID_CONFIG"),
    (TOPIC, "t", ("retention.ms", SET, None), "INVALID_REQUEST"),
    (TOPIC, "t", ("retention.ms", DELETE, "-7"), "NONE"),
    (TOPIC, "t", ("retention.ms", APPEND, "5"), "INVALID_CONFIG"),
    (TOPIC, "t", ("retention.ms", SUBTRACT, "5"), "INVALID_CONFIG"),
    (TOPIC, "t", ("retention.ms", 9, "5"), "INVALID_REQUEST"),
    (TOPIC, "t", ("foo", SET, "5"), "INVALID_CONFIG"),
    (TOPIC, "t", ("foo", DELETE, None), "NONE"),
    (TOPIC, "t", ("cleanup.policy", APPEND, "compact"), "NONE"),
    (TOPIC, "t", ("cleanup.policy", APPEND, "foo"), "INVALID_CONFIG"),
    (TOPIC, "t", ("cleanup.policy", APPEND, None), "INVALID_REQUEST"),
    (TOPIC, "t", ("cleanup.policy", SUBTRACT, "foo"), "NONE"),
    (BROKER, "1", ("log.retention.ms", SET, "5000"), "NONE"),
    (BROKER, "", ("log.retention.ms", SET, "5000"), "NONE"),
    (BROKER, "7", ("log.retention.ms", SET, "5000"), "INVALID_REQUEST"),
    (BROKER, "x", ("log.retention.ms", SET, "5000"), "INVALID_REQUEST"),
    (BROKER, "", ("log.retention.ms", SET, "x"), "INVALID_REQUEST"),
    (BROKER, "", ("num.io.threads", SET, "0"), "INVALID_REQUEST"),
    (BROKER, "", ("message.max.bytes", SET, "-1"), "INVALID_REQUEST"),
    (BROKER, "1", ("node.id", SET, "5"), "INVALID_REQUEST"),
    (BROKER, "", ("num.partitions", SET, "2"), "INVALID_REQUEST"),
    (BROKER, "", ("log.retention.hours", SET, "1"), "INVALID_REQUEST"),
    (BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), "INVALID_REQUEST"),
    (BROKER, "", ("ssl.keystore.type", SET, "PKCS12"), "INVALID_REQUEST"),
    (BROKER, "1", ("listener.name.external.ssl.keystore.type", SET, "PKCS12"), "NONE"),
    (BROKER, "1", ("of.a.plugin", SET, "5"), "NONE"),
    (LOGGER, "1", ("kafka", SET, "DEBUG"), "INVALID_REQUEST"),
    (METRICS, "m", ("interval.ms", SET, "1000"), "NONE"),
    (METRICS, "m", ("foo", SET, "1000"), "INVALID_REQUEST"),
    (METRICS, "", ("interval.ms", SET, "1000"), "INVALID_REQUEST"),
    (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"), "NONE"),
    (GROUP, "g", ("foo", SET, "1"), "INVALID_CONFIG"),
    (GROUP, "", ("foo", SET, "1"), "INVALID_REQUEST"),
    (GROUP, "g", ("share.auto.offset.reset", SET, "by_duration:PT1H"), "NONE"),
    (GROUP, "g", ("share.auto.offset.reset", SET, "by_duration:P"), "INVALID_CONFIG"),
    (99, "t", ("retention.ms", SET, "5"), "INVALID_REQUEST"),
]


@pytest.mark.parametrize(("kind", "name", "change", "code"), CASES)
def test_a_change_is_refused_with_kafkas_code_or_made(
    kind: int, name: str, change: tuple[str, int, str | None], code: str
) -> None:
    """A config that is accepted and then ignored is worse than one that is refused."""
    on = prepared()
    assert alter(on, resource(kind, name, change)) == [code]
    kept = on.image.config(kind, name).get(change[0])
    assert (kept is not None) == (code == "NONE" and change[1] != DELETE)


def test_lists_grow_and_shrink_from_what_holds() -> None:
    """APPEND to a key that was never set must not drop its default."""
    on = prepared()
    steps = [
        (("cleanup.policy", APPEND, "compact"), "delete,compact"),
        (("cleanup.policy", APPEND, "compact,delete"), "delete,compact"),
        (("cleanup.policy", SUBTRACT, "delete"), "compact"),
        (("cleanup.policy", SUBTRACT, "compact"), ""),
        (("cleanup.policy", DELETE, None), None),
    ]
    for change, expected in steps:
        assert alter(on, resource(TOPIC, "t", change)) == ["NONE"]
        assert on.image.config(TOPIC, "t").get("cleanup.policy") == expected


def test_the_full_form_replaces_all_keys_and_the_incremental_one_only_those_named() -> None:
    """Tools of before 2.3 send everything they want kept; newer ones send what changes."""
    on = prepared()
    alter(on, resource(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")))
    alter(on, resource(TOPIC, "t", ("segment.ms", SET, "7")))
    assert dict(on.image.config(TOPIC, "t")) == {"retention.ms": "5", "segment.ms": "7"}
    alter(on, resource(TOPIC, "t", ("flush.ms", SET, "8")), incremental=False)
    assert dict(on.image.config(TOPIC, "t")) == {"flush.ms": "8"}


def test_keys_are_judged_together_with_those_already_set() -> None:
    """Each value may be fine alone; a record that must stay 10 ms and must go after 5 cannot be."""
    on = prepared()
    assert alter(on, resource(TOPIC, "t", ("min.compaction.lag.ms", SET, "10"))) == ["NONE"]
    assert alter(on, resource(TOPIC, "t", ("max.compaction.lag.ms", SET, "5"))) == ["INVALID_CONFIG"]


def test_resources_stand_alone_but_not_twice() -> None:
    """Two orders for one key have no first and second: neither is obeyed."""
    on = prepared()
    create(on, new_topic("u"))
    codes = alter(
        on,
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
        resource(TOPIC, "u", ("retention.ms", SET, "5")),
        resource(TOPIC, "t", ("segment.ms", SET, "6")),
        resource(TOPIC, "nope", ("segment.ms", SET, "6")),
    )
    assert codes == ["INVALID_REQUEST", "NONE", "INVALID_REQUEST", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert dict(on.image.config(TOPIC, "t")) == {}
    twice = resource(TOPIC, "u", ("retention.ms", SET, "6"), ("retention.ms", DELETE, None))
    assert alter(on, twice) == ["INVALID_REQUEST"]


def test_validating_and_changing_nothing_write_no_record() -> None:
    """An entry costs an fsync on a majority: only a change is worth one."""
    on = prepared()
    before = len(on.records)
    assert alter(on, resource(TOPIC, "t", ("retention.ms", SET, "5")), validate_only=True) == ["NONE"]
    assert alter(on, resource(TOPIC, "t", ("retention.ms", DELETE, None))) == ["NONE"]
    assert len(on.records) == before


def test_a_refusal_names_key_value_and_reason_and_hides_secrets() -> None:
    """The message may end up in the log of the client that sent the request."""
    on = prepared()
    asked = AlterConfigs(resources=[resource(TOPIC, "t", ("retention.ms", SET, "soon"))], incremental=True)
    (reply,) = on.ask(asked).resources
    assert reply.error_message is not None
    assert all(part in reply.error_message for part in ("retention.ms", "'soon'", "a whole number is needed"))
