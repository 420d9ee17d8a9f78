"""What `chronik init --secure` prints for five libraries runs as it was printed, against three nodes from its files."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.clients.built import DRIVERS
from tests.cluster.from_files import FromFiles, free_places, place_words
from tests.oracle.jars import kafka_jars

pytestmark = [pytest.mark.slow, pytest.mark.long]

PATIENCE_S = 60
TOPIC = "app-orders"
GO = """\
package main

import (
    "context"
    "crypto/tls"
    "crypto/x509"
    "os"
    "strings"

    "github.com/twmb/franz-go/pkg/kgo"
    "github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
%s
    if err != nil {
        panic(err)
    }
    record := &kgo.Record{Topic: os.Args[1], Value: []byte("franz-go")}
    if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
        panic(err)
    }
}
"""
JAVA = """\
import java.io.FileReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class Printed {
    public static void main(String[] words) throws Exception {
%s
        producer.send(new ProducerRecord<>(words[0], "Java")).get();
        producer.close();
    }
}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    directory = tmp_path_factory.mktemp("printed") / "cluster"
    words = ["init", str(directory), "--secure", *place_words(free_places(3)), "--format", "json"]
    done = subprocess.run([sys.executable, "-m", "chronik.cli", *words], stdout=subprocess.PIPE, check=True)
    described = json.loads(done.stdout)
    with FromFiles([Path(node["file"]) for node in described["nodes"]]):
        yield described


def snippet(told: Any, library: str) -> str:
    return next(text for name, text in told["clients"]["app"].items() if name.startswith(library))


def executed(text: str) -> Any:
    """The producer that a printed snippet of Python makes."""
    names = {"confluent_kafka": confluent_kafka, "kafka": kafka, "aiokafka": aiokafka, "ssl": ssl, "pathlib": pathlib}
    exec(text, names)
    return names["producer"]


def test_confluent_kafka(told: Any) -> None:
    outcomes: list[object] = []
    producer = executed(snippet(told, "confluent-kafka"))
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(PATIENCE_S)
    assert outcomes == [None]


def test_kafka_python(told: Any) -> None:
    producer = executed(snippet(told, "kafka-python"))
    assert producer.send(TOPIC, b"x").get(PATIENCE_S).topic == TOPIC
    producer.close()


def test_aiokafka(told: Any) -> None:
    async def produce() -> None:
        async with executed(snippet(told, "aiokafka")) as producer:
            await producer.send_and_wait(TOPIC, b"x")

    asyncio.run(produce())


@pytest.mark.java
def test_java(told: Any, tmp_path: Path) -> None:
    (tmp_path / "Printed.java").write_text(JAVA % snippet(told, "Java"))
    command = ["java", "-cp", f"{kafka_jars('4.3.1')}/*", str(tmp_path / "Printed.java"), TOPIC]
    subprocess.run(command, check=True, timeout=5 * PATIENCE_S)


def test_franz_go(told: Any, tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(DRIVERS / "go" / name, tmp_path)
    (tmp_path / "main.go").write_text(GO % snippet(told, "franz-go"))
    subprocess.run(["go", "run", ".", TOPIC], cwd=tmp_path, env={**os.environ}, check=True, timeout=5 * PATIENCE_S)


def test_a_user_may_not_write_to_topics_of_others(told: Any) -> None:
    """The rules of the files are in force from the first start on."""
    outcomes: list[str] = []
    producer = executed(snippet(told, "confluent-kafka"))
    producer.produce("orders", b"x", on_delivery=lambda error, _: outcomes.append(error.name()))
    producer.flush(PATIENCE_S)
    assert outcomes == ["TOPIC_AUTHORIZATION_FAILED"]
