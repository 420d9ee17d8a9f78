"""Kafka's own command line tools against us: they print here what they print about a real Kafka 4.3.1."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from chronik.testing import Cluster
from tests.clients.drivers.kafka_tools import KafkaTools

pytestmark = pytest.mark.java


class ToolsContract:
    """Subclasses give `tools`, a fixture that yields the tools of one release."""

    names: ClassVar[Iterator[int]] = iter(range(1_000_000))

    @pytest.fixture
    def name(self) -> str:
        """For a topic or a group of this test alone."""
        return f"{type(self).__name__.lower()}-{next(self.names)}"

    def test_topics_are_created_listed_described_grown_and_deleted(
        self, tools: KafkaTools, cluster: Cluster, name: str
    ) -> None:
        where = ("--bootstrap-server", cluster.bootstrap)
        create = (*where, "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=60000")
        assert tools.run("TopicCommand", *create) == f"Created topic {name}.\n"
        assert "already exists" in tools.refused("TopicCommand", *create)
        assert name in tools.run("TopicCommand", *where, "--list").splitlines()
        topic, *partitions = tools.run("TopicCommand", *where, "--describe", "--topic", name).splitlines()
        assert re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", topic).split("\t") == [
            f"Topic: {name}", "TopicId: ID", "PartitionCount: 2", "ReplicationFactor: 1", "Configs: retention.ms=60000",
        ]  # fmt: skip
        assert [line.split("\t")[1:6] for line in partitions] == [
            [f"Topic: {name}", f"Partition: {index}", "Leader: 1", "Replicas: 1", "Isr: 1"] for index in range(2)
        ]
        tools.run("TopicCommand", *where, "--alter", "--topic", name, "--partitions", "5")
        assert "PartitionCount: 5" in tools.run("TopicCommand", *where, "--describe", "--topic", name)
        tools.run("TopicCommand", *where, "--delete", "--topic", name)
        assert name not in tools.run("TopicCommand", *where, "--list").splitlines()

    def test_settings_are_altered_described_refused_and_deleted(
        self, tools: KafkaTools, cluster: Cluster, name: str
    ) -> None:
        where = ("--bootstrap-server", cluster.bootstrap)
        topic = (*where, "--entity-type", "topics", "--entity-name", name)
        tools.run("TopicCommand", *where, "--create", "--topic", name)
        changed = tools.run(
            "ConfigCommand", *topic, "--alter", "--add-config", "max.message.bytes=2000000,retention.ms=60000"
        )
        assert changed == f"Completed updating config for topic {name}.\n"
        own = "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000"
        inherited = "DEFAULT_CONFIG:message.max.bytes=1048588"
        kept = (
            "DYNAMIC_TOPIC_CONFIG:retention.ms=60000, STATIC_BROKER_CONFIG:log.retention.ms=-1, "
            "DEFAULT_CONFIG:log.retention.hours=168"
        )
        assert tools.run("ConfigCommand", *topic, "--describe").splitlines() == [
            f"Dynamic configs for topic {name} are:",
            f"  max.message.bytes=2000000 sensitive=false synonyms={{{own}, {inherited}}}",
            f"  retention.ms=60000 sensitive=false synonyms={{{kept}}}",
        ]
        refusal = tools.refused("ConfigCommand", *topic, "--alter", "--add-config", "max.message.bytes=-3")
        assert "InvalidConfigurationException" in refusal
        tools.run("ConfigCommand", *topic, "--alter", "--delete-config", "retention.ms")
        assert "retention.ms=60000" not in tools.run("ConfigCommand", *topic, "--describe")
        everything = tools.run("ConfigCommand", *topic, "--describe", "--all")
        assert (
            "  cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
            in everything
        )
        broker = tools.run(
            "ConfigCommand", *where, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
        )
        assert "  num.partitions=3 sensitive=false synonyms={STATIC_BROKER_CONFIG:num.partitions=3, " in broker

    def test_a_group_is_listed_described_reset_and_deleted(
        self, tools: KafkaTools, cluster: Cluster, name: str
    ) -> None:
        where = ("--bootstrap-server", cluster.bootstrap)
        about = (*where, "--group", name)
        tools.run("TopicCommand", *where, "--create", "--topic", name, "--partitions", "1")
        tools.run("ConsoleProducer", *where, "--sync", "--timeout", "0", "--topic", name, stdin="one\ntwo\nthree\n")
        read = ("--topic", name, "--from-beginning", "--max-messages", "3", "--timeout-ms", "60000")
        seen = tools.run("ConsoleConsumer", *about, *read)
        assert [line for line in seen.splitlines() if " " not in line] == ["one", "two", "three"]
        tools.run("ConsoleProducer", *where, "--sync", "--timeout", "0", "--topic", name, stdin="four\n")
        assert name in tools.run("ConsumerGroupCommand", *where, "--list").splitlines()
        assert table(tools.run("ConsumerGroupCommand", *about, "--describe")) == [
            [name, name, "0", "3", "4", "1", "-", "-", "-"]
        ]
        (state,) = table(tools.run("ConsumerGroupCommand", *about, "--describe", "--state"))
        assert [word for word in state if word != "-"] == [name, cluster.bootstrap, "(1)", "Empty", "0"]
        reset = (*about, "--topic", name, "--reset-offsets", "--to-offset", "1", "--execute")
        assert tools.run("ConsumerGroupCommand", *reset).split()[-4:] == [name, name, "0", "1"]
        assert table(tools.run("ConsumerGroupCommand", *about, "--describe"))[0][3:6] == ["1", "4", "3"]
        tools.run("ConsumerGroupCommand", *about, "--topic", name, "--delete-offsets")
        assert "successful" in tools.run("ConsumerGroupCommand", *about, "--delete")
        assert name not in tools.run("ConsumerGroupCommand", *where, "--list").splitlines()

    def test_offsets_directories_and_deleted_records_are_told(
        self, tools: KafkaTools, cluster: Cluster, name: str, tmp_path: Path
    ) -> None:
        where = ("--bootstrap-server", cluster.bootstrap)
        tools.run("TopicCommand", *where, "--create", "--topic", name, "--partitions", "1")
        tools.run("ConsoleProducer", *where, "--sync", "--timeout", "0", "--topic", name, stdin="one\ntwo\nthree\n")
        assert tools.run("GetOffsetShell", *where, "--topic", name) == f"{name}:0:3\n"
        plan = tmp_path / "plan.json"
        plan.write_text(
            json.dumps({"partitions": [{"topic": name, "partition": 0, "offset": 2}], "version": 1}), encoding="utf-8"
        )
        assert "low_watermark: 2" in tools.run("DeleteRecordsCommand", *where, "--offset-json-file", str(plan))
        assert tools.run("GetOffsetShell", *where, "--topic", name, "--time", "-2") == f"{name}:0:2\n"
        told = tools.run("LogDirsCommand", *where, "--describe", "--topic-list", name).splitlines()[-1]
        (directory,) = json.loads(told)["brokers"][0]["logDirs"]
        assert directory["logDir"] == str(cluster.data)
        assert [partition["partition"] for partition in directory["partitions"]] == [f"{name}-0"]
        assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", tools.run("ClusterTool", "cluster-id", *where))

    def test_segments_and_committed_offsets_read_as_kafkas_own(
        self, tools: KafkaTools, tmp_path: Path, name: str
    ) -> None:
        with Cluster(data=tmp_path, settings={"offsets.topic.num.partitions": "1"}) as cluster:
            where = ("--bootstrap-server", cluster.bootstrap)
            compressed = (*where, "--sync", "--timeout", "0", "--topic", name, "--compression-codec", "lz4")
            tools.run("ConsoleProducer", *compressed, stdin="one\ntwo\n")
            reset = ("--topic", name, "--reset-offsets", "--to-offset", "1", "--execute")
            tools.run("ConsumerGroupCommand", *where, "--group", "readers", *reset)
        data = dump(tools, tmp_path / f"{name}-0", "--print-data-log", "--deep-iteration")
        batches = re.findall(r"baseOffset: (\d) .* magic: (\d) compresscodec: (\w+) .* isvalid: (\w+)", data)
        assert batches == [("0", "2", "lz4", "true"), ("1", "2", "lz4", "true")]
        assert re.findall(r"offset: (\d) .* payload: (.*)", data) == [("0", "one"), ("1", "two")]
        offsets = dump(tools, tmp_path / "__consumer_offsets-0", "--offsets-decoder")
        key = {"type": "1", "data": {"group": "readers", "topic": name, "partition": 0}}
        assert json.dumps(key, separators=(",", ":")) in offsets
        assert re.search(r'"version":"\d","data":{"offset":1,"leaderEpoch":-1,"metadata":"",', offsets)


class TestTools43(ToolsContract):
    @pytest.fixture(scope="class")
    @classmethod
    def tools(cls) -> Iterator[KafkaTools]:
        yield from closing(KafkaTools("4.3.1"))

    def test_a_share_group_is_listed_described_reset_and_deleted(
        self, tools: KafkaTools, cluster: Cluster, name: str
    ) -> None:
        """kafka-share-groups.sh, with a group that an operator makes before it has members."""
        where = ("--bootstrap-server", cluster.bootstrap)
        about = (*where, "--group", name)
        tools.run("TopicCommand", *where, "--create", "--topic", name, "--partitions", "2")
        tools.run("ConsoleProducer", *where, "--sync", "--timeout", "0", "--topic", name, stdin="one\ntwo\nthree\n")
        reset = (*about, "--topic", name, "--reset-offsets", "--to-earliest", "--execute")
        moved = sorted(table(tools.run("ShareGroupCommand", *reset)))
        assert moved == [[name, name, str(index), "0"] for index in range(2)]
        assert name in tools.run("ShareGroupCommand", *where, "--list").splitlines()
        states = tools.run("ShareGroupCommand", *where, "--list", "--state", "empty").splitlines()
        assert [name, "Empty"] in [line.split() for line in states]
        rows = sorted(table(tools.run("ShareGroupCommand", *about, "--describe")))
        assert [row[:4] for row in rows] == [[name, name, str(index), "0"] for index in range(2)]
        assert sum(int(row[4]) for row in rows) == 3
        (state,) = table(tools.run("ShareGroupCommand", *about, "--describe", "--state"))
        assert state == [name, cluster.bootstrap, "(1)", "Empty", "0"]
        tools.run("ShareGroupCommand", *about, "--topic", name, "--delete-offsets")
        assert not table(tools.run("ShareGroupCommand", *about, "--describe"))
        assert "successful" in tools.run("ShareGroupCommand", *about, "--delete")
        assert name not in tools.run("ShareGroupCommand", *where, "--list").splitlines()

    def test_share_state_reads_as_kafkas_own(self, tools: KafkaTools, tmp_path: Path, name: str) -> None:
        """The records of __share_group_state, by Kafka's own decoder."""
        with Cluster(data=tmp_path, settings={"share.coordinator.state.topic.num.partitions": "1"}) as cluster:
            where = ("--bootstrap-server", cluster.bootstrap)
            tools.run("TopicCommand", *where, "--create", "--topic", name, "--partitions", "1")
            reset = ("--topic", name, "--reset-offsets", "--to-latest", "--execute")
            tools.run("ShareGroupCommand", *where, "--group", name, *reset)
        state = dump(tools, tmp_path / "__share_group_state-0", "--share-group-state-decoder")
        assert re.search(rf'"type":"?0"?,"data":{{"groupId":"{name}","topicId":"[\w-]{{22}}","partition":0}}', state)
        assert re.search(
            r'"version":"?0"?,"data":{"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":0,"startOffset":0,', state
        )


class TestTools39(ToolsContract):
    @pytest.fixture(scope="class")
    @classmethod
    def tools(cls) -> Iterator[KafkaTools]:
        yield from closing(KafkaTools("3.9.1"))


def closing(tools: KafkaTools) -> Iterator[KafkaTools]:
    yield tools
    tools.close()


def table(printed: str) -> list[list[str]]:
    """The rows below the line of titles; none without one."""
    lines = [line.split() for line in printed.splitlines()]
    title = next((index for index, words in enumerate(lines) if words[:1] == ["GROUP"]), len(lines))
    return [words for words in lines[title + 1 :] if words]


def dump(tools: KafkaTools, partition: Path, *options: str) -> str:
    return tools.run("DumpLogSegments", *options, "--files", str(partition / f"{0:020}.log"))
