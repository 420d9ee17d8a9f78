"""Configurations of topics, brokers and groups: described, changed, and refused."""

from __future__ import annotations

import pytest

from chronik.wire.messages import alter_configs, incremental_alter_configs
from chronik.wire.messages.alter_configs import AlterConfigsRequest
from chronik.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from chronik.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from chronik.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.oracle.asking import create_topic
from tests.oracle.comparison import Pair

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
ANY_ORDER = ("configs",)  # Kafka's is that of a hash table
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(kind: int, name: str, keys: list[str] | None = None, **more: bool) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[wanted], **more)


def test_describing_topics(pair: Pair) -> None:
    """Every key of a topic, with the source of its value and its synonyms."""
    plain = create_topic(pair, pair.name("plain"))
    own = create_topic(
        pair, pair.name("own"), cleanup_policy="compact,delete", retention_ms="7", segment_bytes="1048576"
    )
    # Kafka 3.9 has keys that 4 no longer knows.
    every = None if pair.release == "4.3.1" else ["retention.ms", "cleanup.policy", "segment.ms", "max.message.bytes"]
    for version in pair.versions(DescribeConfigsRequest):
        for name in (plain, own):
            pair.case = name
            pair.ask(describe(TOPIC, name, every), version, unordered=ANY_ORDER)
            if version >= 1:
                pair.ask(describe(TOPIC, name, every, include_synonyms=True), version, unordered=ANY_ORDER)
            if version >= 3:
                pair.ask(
                    describe(TOPIC, name, every, include_synonyms=True, include_documentation=True),
                    version,
                    unordered=ANY_ORDER,
                )
            pair.ask(
                describe(TOPIC, name, ["retention.ms", "no.such.key", "cleanup.policy"]), version, unordered=ANY_ORDER
            )
            if every is None:
                pair.ask(describe(TOPIC, name, []), version, unordered=ANY_ORDER)
        pair.case = "not there"
        pair.ask(describe(TOPIC, pair.name("unknown")), version)
        pair.ask(describe(TOPIC, "bad/name"), version)
        pair.ask(describe(TOPIC, ""), version)
        pair.ask(describe(3, "odd"), version)


def test_describing_brokers(pair: Pair) -> None:
    """Keys of the broker that the comparison's own file does not make different."""
    keys = [
        "message.max.bytes",
        "num.partitions",
        "log.retention.ms",
        "log.retention.hours",
        "log.segment.bytes",
        "auto.create.topics.enable",
        "num.io.threads",
        "node.id",
        "compression.type",
        "group.initial.rebalance.delay.ms",
        "offsets.topic.num.partitions",
        "ssl.keystore.password",
        "min.insync.replicas",
        "background.threads",
        "log.cleaner.threads",
        "unclean.leader.election.enable",
        "no.such.key",
    ]
    for version in pair.versions(DescribeConfigsRequest):
        pair.ask(describe(BROKER, "1", keys), version, unordered=ANY_ORDER)
        if version >= 1:
            pair.ask(describe(BROKER, "1", keys, include_synonyms=True), version, unordered=ANY_ORDER)
        pair.ask(describe(BROKER, "7", keys), version)
        pair.ask(describe(BROKER, "one", keys), version)
        pair.ask(describe(LOGGER, "7"), version)
        if pair.release == "4.3.1":  # before 4.0 groups have no configuration, and subscriptions no defaults
            pair.ask(describe(GROUP, pair.name("g")), version, unordered=ANY_ORDER)
            pair.ask(describe(METRICS, pair.name("m")), version, unordered=ANY_ORDER)


def test_altering_topics_one_key_at_a_time(pair: Pair) -> None:
    """Set, delete, append and subtract; good values, bad values, unknown keys."""
    for version in pair.versions(IncrementalAlterConfigsRequest):
        name = create_topic(pair, pair.name(f"v{version}"))

        def alter(
            *changes: tuple[str, int, str | None],
            topic: str = name,
            kind: int = TOPIC,
            dry: bool = False,
            version: int = version,
            name: str = name,
            differs: str | None = None,
        ) -> None:
            wanted = incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=topic,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            pair.case = f"{topic} {changes}"
            request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=dry)
            pair.ask(request, version, differs=differs)
            pair.ask_until_equal(describe(TOPIC, name), 1, unordered=ANY_ORDER)

        alter(("retention.ms", SET, "1000"), dry=True)
        alter(("retention.ms", SET, "1000"))
        alter(("retention.ms", SET, "1000"), ("segment.bytes", SET, "2097152"))
        alter(("retention.ms", SET, "soon"))
        alter(("retention.ms", SET, None))
        alter(("retention.ms", DELETE, None))
        alter(("retention.ms", DELETE, None))
        alter(("cleanup.policy", APPEND, "compact"))
        alter(("cleanup.policy", SUBTRACT, "delete"))
        alter(("cleanup.policy", APPEND, "burn"))
        alter(("retention.ms", APPEND, "1"))
        alter(("no.such.key", SET, "1"))
        alter(("retention.ms", 9, "1"), differs="unknown-config-operation")
        alter(("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        alter(("retention.ms", SET, "1"), topic=pair.name("unknown"))
        alter(("retention.ms", SET, "1"), topic="bad/name")
        alter(("retention.ms", SET, "1"), topic="")
        alter(("retention.ms", SET, "1"), kind=3)
        alter()
        alter(("min.insync.replicas", SET, "0"))
        alter(("max.message.bytes", SET, "-1"))


def test_altering_topics_as_a_whole(pair: Pair) -> None:
    """Keys that are not named get their defaults."""
    for version in pair.versions(AlterConfigsRequest):
        name = create_topic(pair, pair.name(f"v{version}"), retention_ms="5")

        def alter(
            configs: dict[str, str | None],
            *,
            topic: str = name,
            kind: int = TOPIC,
            dry: bool = False,
            version: int = version,
            name: str = name,
        ) -> None:
            wanted = alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=topic,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
            pair.case = f"{topic} {configs}"
            pair.ask(AlterConfigsRequest(resources=[wanted], validate_only=dry), version)
            pair.ask_until_equal(describe(TOPIC, name), 1, unordered=ANY_ORDER)

        alter({"segment.bytes": "2097152"}, dry=True)
        alter({"segment.bytes": "2097152"})
        alter({"retention.ms": "soon"})
        alter({"retention.ms": None})
        alter({"no.such.key": "1"})
        alter({}, topic=pair.name("unknown"))
        alter({}, topic="bad/name")
        alter({}, kind=3)
        alter({})


def test_altering_groups_and_brokers(pair: Pair) -> None:
    """The same for other resources than topics."""
    for version in pair.versions(IncrementalAlterConfigsRequest)[-1:]:
        for kind, name, key, value in (
            (GROUP, pair.name("g"), "consumer.session.timeout.ms", "50000"),
            (GROUP, pair.name("g"), "consumer.session.timeout.ms", "soon"),
            (GROUP, pair.name("g"), "no.such.key", "1"),
            (GROUP, "", "consumer.session.timeout.ms", "50000"),
            (BROKER, "7", "message.max.bytes", "1"),
            (BROKER, "one", "message.max.bytes", "1"),
            (BROKER, "", "message.max.bytes", "soon"),
            (BROKER, "1", "node.id", "5"),
            (BROKER, "", "log.dirs", "/tmp"),
            (METRICS, pair.name("m"), "interval.ms", "1000"),
            (METRICS, pair.name("m"), "interval.ms", "1"),
            (METRICS, pair.name("m"), "interval.ms", "3600001"),
            (METRICS, pair.name("m"), "interval.ms", "soon"),
            (METRICS, pair.name("m"), "no.such.key", "1"),
        ):
            wanted = incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[incremental_alter_configs.AlterableConfig(name=key, config_operation=SET, value=value)],
            )
            pair.case = f"{kind} {name} {key} {value}"
            pair.ask(IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False), version)
        pair.ask_until_equal(describe(GROUP, pair.name("g")), 4, unordered=ANY_ORDER)
        pair.ask_until_equal(describe(METRICS, pair.name("m")), 4, unordered=ANY_ORDER)


def test_listing_config_resources(pair: Pair) -> None:
    """Which resources have a configuration at all."""
    for version in pair.versions(ListConfigResourcesRequest):
        kinds: tuple[list[int], ...] = ([], [METRICS], [GROUP], [BROKER], [LOGGER], [1], [METRICS, 99])
        for wanted in kinds if version else ([],):
            if version and not wanted:
                continue  # all topics, those of other scenarios too
            pair.case = str(wanted)
            request = ListConfigResourcesRequest(resource_types=wanted)
            pair.ask_until_equal(request, version, unordered=("config_resources",))
